"""What may be asked for a function, and how mistakes in it are told."""

import pickle
from typing import Any

import pytest

import potluck
from potluck.consumer.functions.options import Options, parse_options, resolve_secrets
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput

WALLET = "0x" + "ab" * 20

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"gpus": 1}, "There is no option 'gpus'."),
    ({"vram": "much"}, "vram 'much' is not a size."),
    ({"ram": 1}, "ram must be at least 16 MiB."),
    ({"gpu": -1}, "gpu -1 is not a number of GPUs up to 64, a model, or MODEL:NUMBER."),
    ({"gpu": 65}, "gpu 65 is not a number of GPUs up to 64"),
    ({"gpu": "a100:0"}, "gpu 'a100:0' is not a number of GPUs up to 64"),
    ({"gpu": "a100:65"}, "gpu 'a100:65' is not a number of GPUs up to 64"),
    ({"gpu": "a100:many"}, "gpu 'a100:many' is not a number of GPUs up to 64"),
    ({"gpu": ":2"}, "gpu ':2' is not a number of GPUs up to 64"),
    ({"gpu": ""}, "gpu '' is not a number of GPUs up to 64"),
    ({"gpu": 1.5}, "gpu 1.5 is not a number of GPUs up to 64"),
    ({"gpu": "a100", "model": "h100"}, "gpu 'a100' and model 'h100' both name a model."),
    ({"gpu": "a100", "device_kind": "cpu"}, "gpu and device_kind cpu contradict each other."),
    ({"time": "soon"}, "time 'soon' is not a duration."),
    ({"dependencies": 1}, "dependencies must be a string."),
    ({"attempts": 0}, "attempts must be a whole number from 1 to 100."),
    ({"owner": ["you"]}, "owner is not a wallet address"),
    ({"trust": ["x"]}, "trust is not a wallet address: 0x and 40 hexadecimal digits."),
    ({"env": {"a b": "c"}}, "env 'a b=c' is not NAME=value."),
    ({"env": {"a": []}}, "env: a must be a string or a number."),
    ({"dependencies": [""]}, "dependencies must not be empty."),
    ({"name": ""}, "name must not be empty."),
    ({"env": {"A=B": "1"}}, "env: 'A=B' is not the name of a variable."),
    ({"secret": {"TOKEN": object()}}, "The value of a secret must be a string."),
    ({"secret": {"a b": "c"}}, "that is the name of a variable: letters, digits and _."),
    ({"secret": 1}, "secret must be a string."),
    (
        {"file": {"../up": "here"}},
        "file is invalid: expected text that is a path below the working directory",
    ),
    ({"time": -1}, "time '-1s' is not a duration."),
    ({"priority": 101}, "priority must be a whole number from -100 to 100."),
    ({"from_wallets": [WALLET]}, "no effect without allow_pickle"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_a_mistake_is_reported_where_it_is_made(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        potluck.task(**options)
    assert sentence in raised.value.detail


def test_a_version_of_python_cannot_be_chosen_for_a_function() -> None:
    options: dict[str, Any] = {"python": "3.12"}
    with pytest.raises(InvalidInput, match="There is no option 'python'") as raised:
        potluck.task(**options)
    assert raised.value.hint == "A function runs on the version of your own Python."


def test_words_become_what_the_server_understands() -> None:
    options = parse_options(
        {
            "gpu": "RTX 40*",
            "ram": "2GiB",
            "vram": "24GB",
            "time": "1m",
            "attempts": 3,
            "max_price": "0.5",
        }
    )
    requirements = options.request.requirements
    assert (requirements.device_kind, requirements.device_model) == (DeviceKind.GPU, "RTX 40*")
    assert (requirements.memory_bytes, requirements.device_memory_bytes) == (2 * 2**30, 24 * 10**9)
    assert requirements.max_price_micro_per_hour == 500_000
    assert (options.request.limits.run_seconds, options.request.max_attempts) == (60.0, 3)


@pytest.mark.parametrize(
    ("gpu", "kind", "count", "model"),
    [
        (False, None, 1, None),
        (0, None, 1, None),
        (True, "gpu", 1, None),
        (4, "gpu", 4, None),
        ("4", "gpu", 4, None),
        ("a100", "gpu", 1, "a100"),
        ("a100:2", "gpu", 2, "a100"),
        ("rtx 40*: 8", "gpu", 8, "rtx 40*"),
        ("A100|H100:2", "gpu", 2, "A100|H100"),
        (4090, "gpu", 1, "4090"),
        ("3090:2", "gpu", 2, "3090"),
        ("2x4090", "gpu", 2, "4090"),
        ("8 x H100 SXM", "gpu", 8, "H100 SXM"),
        ("a100 x2", "gpu", 2, "a100"),
        ("4090×2", "gpu", 2, "4090"),
        ("rtx 40", "gpu", 1, "rtx 40"),
        ("MI300X", "gpu", 1, "MI300X"),
    ],
)
def test_gpus_by_number_model_or_both(gpu: Any, kind: Any, count: int, model: Any) -> None:
    requirements = parse_options({"gpu": gpu}).request.requirements
    assert (requirements.device_kind, requirements.device_count, requirements.device_model) == (
        kind,
        count,
        model,
    )


def test_secrets_come_from_the_environment_when_they_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Options(secrets=["TOKEN"])
    with pytest.raises(InvalidInput, match="The environment variable TOKEN"):
        resolve_secrets(options)
    monkeypatch.setenv("TOKEN", "first")
    assert resolve_secrets(options) == {"TOKEN": "first"}
    assert resolve_secrets(Options(secrets={"TOKEN": "given"})) == {"TOKEN": "given"}


def test_only_functions_that_give_a_value_can_be_tasks() -> None:
    async def waits() -> None: ...

    with pytest.raises(InvalidInput, match="is a coroutine or a generator"):
        potluck.task(waits)


class Scaled:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    @potluck.task
    def times(self, x: int) -> int:
        return self.factor * x


def test_a_method_stays_one() -> None:
    scaled = Scaled(3)
    assert scaled.times(2) == scaled.times.using(cores=2)(2) == Scaled.times(scaled, 2) == 6
    remote_times = pickle.loads(scaled.times._order.code.get(has_folder=False)[1])
    scaled.factor = 5
    assert remote_times(2) == 6, "the object went along as it was"


def test_a_task_is_still_the_function() -> None:
    @potluck.task(cores=2)
    def double(x: int) -> int:
        """Twice as much."""
        return 2 * x

    assert double(2) == double.local(2) == double.using(cores=1)(2) == 4
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")
