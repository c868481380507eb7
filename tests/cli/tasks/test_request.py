"""What somebody typed becomes a request, or a sentence that names the option."""

from typing import Any

import pytest
from msgspec.structs import replace

from potluck.cli.request.options import option_name
from potluck.local.option_values import GpuChoice, parse_environment
from potluck.local.request_builder import build_request, check_request
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput
from potluck.model.task import Limits, Requirements, TaskRequest
from potluck.model.task_spec import ScriptSpec

GOOD = TaskRequest(ScriptSpec("a.py", "1"))


def test_a_good_request_passes_unchanged() -> None:
    assert check_request(GOOD, option_name) == GOOD


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"requirements": Requirements(memory_bytes=1)}, "--ram"),
        ({"requirements": Requirements(disk_bytes=1)}, "--disk"),
        ({"requirements": Requirements(device_memory_bytes=2**70)}, "--vram"),
        ({"requirements": Requirements(device_model="")}, "--model"),
        ({"limits": Limits(run_seconds=1e9)}, "--time"),
        ({"name": "two\nlines"}, "--name"),
        ({"name": "x" * 201}, "--name"),
        ({"spec": ScriptSpec("a.py", "1", ("x" * 40_000,))}, "the script's arguments"),
    ],
)
def test_invalid_values_are_named_by_their_option(changes: dict[str, Any], option: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        check_request(replace(GOOD, **changes), option_name)
    assert raised.value.detail.startswith(option)


def test_an_argument_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not valid UTF-8"):
        wrong = ScriptSpec("a.py", "1", ("\udcff",))
        check_request(replace(GOOD, spec=wrong), option_name)


def test_environment() -> None:
    assert parse_environment(["A=1", "B=x=y", "C=", "A=2"]) == {"A": "2", "B": "x=y", "C": ""}


@pytest.mark.parametrize("pair", ["A", "=1", "1A=2", "A B=1", "", "Ä=1"])
def test_invalid_variables_are_refused(pair: str) -> None:
    with pytest.raises(InvalidInput, match="NAME=value"):
        parse_environment([pair])


@pytest.mark.parametrize(
    ("gpus", "kind", "needs"),
    [
        (0, None, (None, 1)),
        (0, DeviceKind.CPU, (DeviceKind.CPU, 1)),
        (2, None, (DeviceKind.GPU, 2)),
        (1, DeviceKind.GPU, (DeviceKind.GPU, 1)),
    ],
)
def test_devices(gpus: int, kind: DeviceKind | None, needs: tuple[DeviceKind | None, int]) -> None:
    requirements = build_request(
        GOOD.spec, {"gpu": GpuChoice(gpus), "device-kind": kind}, option_name
    ).requirements
    assert (requirements.device_kind, requirements.device_count) == needs


def test_gpus_on_a_cpu_contradict() -> None:
    values = {"gpu": GpuChoice(1), "device-kind": DeviceKind.CPU}
    with pytest.raises(InvalidInput, match="contradict"):
        build_request(GOOD.spec, values, option_name)
