"""What may be asked for a function, and how mistakes in it are told."""

import pickle
from typing import Any

import pytest

import potluck
from potluck.consumer.functions.options import Options, secrets_of, understood
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput

WALLET = "0x" + "ab" * 20

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"gpus": 1}, "A task has no option `gpus`."),
    ({"memory": "much"}, "memory 'much' is not a size."),
    ({"ram": 1}, "ram is not possible: expected a whole number"),
    ({"gpu": -1}, "gpu is not possible: expected a whole number of 1 or more"),
    ({"timeout": "soon"}, "timeout 'soon' is not a length of time."),
    ({"dependencies": "numpy"}, "dependencies is a list of texts."),
    ({"retries": -1}, "retries is a whole number from 0 to 99."),
    ({"owners": ["me"]}, "owners is not possible: expected text that is the address of a wallet"),
    ({"trust": ["x"]}, "the address of a wallet: 0x and 40 hexadecimal digits."),
    ({"environment": {"a b": "c"}}, "environment is not possible: expected text that is the name"),
    ({"environment": {"a": 1}}, "environment is not possible"),
    ({"dependencies": [""]}, "dependencies is not possible"),
    ({"secrets": {"TOKEN": object()}}, "The value of a secret is no text."),
    ({"secrets": {"a b": "c"}}, "that is the name of a variable: letters, digits and _."),
    ({"secrets": "TOKEN"}, "secrets is a list of texts."),
    ({"files": {"../up": "here"}}, "expected text that is a path below the working directory"),
    ({"timeout": -1}, "timeout is not possible"),
    ({"priority": 101}, "priority is not possible"),
    ({"from_wallets": [WALLET]}, "without allow_pickle none are"),
]


@pytest.mark.parametrize(("wishes", "sentence"), WRONG)
def test_a_mistake_is_told_where_it_is_made(wishes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        potluck.task(**wishes)
    assert sentence in raised.value.detail


def test_words_become_what_the_server_understands() -> None:
    options = understood(
        {
            "gpu": "RTX 40*",
            "ram": "2GiB",
            "memory": "24GB",
            "timeout": "1m",
            "retries": 2,
            "max_price": "0.5",
        }
    )
    wanted = options.requirements
    assert (wanted.device_kind, wanted.device_model) == (DeviceKind.GPU, "RTX 40*")
    assert (wanted.memory_bytes, wanted.device_memory_bytes) == (2 * 2**30, 24 * 10**9)
    assert wanted.max_price_micro_per_hour == 500_000
    assert (options.limits.run_seconds, options.max_attempts) == (60.0, 3)
    assert understood({"gpu": True}).requirements.device_count == 1
    assert understood({"gpu": 4}).requirements.device_count == 4


def test_secrets_come_from_the_environment_when_they_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = Options(secrets=["TOKEN"])
    with pytest.raises(InvalidInput, match="The secret TOKEN is not among"):
        secrets_of(options)
    monkeypatch.setenv("TOKEN", "first")
    assert secrets_of(options) == {"TOKEN": "first"}
    assert secrets_of(Options(secrets={"TOKEN": "given"})) == {"TOKEN": "given"}


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
    there = pickle.loads(scaled.times._order.code.get(has_folder=False)[1])
    scaled.factor = 5
    assert there(2) == 6, "the object went along as it was"


def test_a_task_is_still_the_function() -> None:
    @potluck.task(cores=2)
    def double(x: int) -> int:
        """Twice as much."""
        return 2 * x

    assert double(2) == double.local(2) == double.using(cores=1)(2) == 4
    assert (double.__name__, double.__doc__) == ("double", "Twice as much.")
