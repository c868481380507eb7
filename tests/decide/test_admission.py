"""What may enter the queue, and the sentence for what may not."""

import time
from typing import Any

import pytest

from potluck.decide.admission import admit, check_spec
from potluck.model.blob import BlobRef, NamedFile, VolumeMount
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput, UnaffordableTask
from potluck.model.ids import TaskId
from potluck.model.task_spec import CommandSpec, ScriptSpec
from tests.server.flow.pool import request

ONE = TaskId("task_01jd0000000000000000000000")

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"device_milli": 250, "device_count": 2}, "requests a fraction of a device, and 2 devices"),
    ({"device_milli": 250, "device_kind": DeviceKind.CPU}, "fraction of a processor"),
    ({"allow_failures": 1}, "Only an array may allow failures"),
    ({"items": 3, "allow_failures": 4}, "allows 4 failures but has 3 items"),
    (
        {"delay_seconds": 60.0, "start_within_seconds": 60.0},
        "delayed by 60 s but must start within 60 s",
    ),
    (
        {"expected_seconds": 20.0, "run_seconds": 10.0},
        "expected to take 20 s, but its time limit is 10 s",
    ),
    ({"after": (ONE, ONE)}, "twice"),
    ({"device_model": "A100||H100"}, "is empty and would match every model"),
    ({"device_model": " | "}, "is empty"),
    ({"volumes": (VolumeMount("data", "/work/hello.py"),)}, "in the same place"),  # as its script
    ({"device_model": "|".join("abcdefghi")}, "9 models are named; at most 8 are allowed"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED, ids=[row[1] for row in REFUSED])
def test_contradictory_requests_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error_info:
        admit(request(**changes), 0, None, 60)
    assert error_info.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"device_milli": 250},
        {"device_milli": 1000, "device_count": 4},
        {"items": 3, "allow_failures": 3},
        {"delay_seconds": 59.0, "start_within_seconds": 60.0},
        {"expected_seconds": 10.0, "run_seconds": 10.0},
        {"after": (ONE,)},
    ],
)
def test_the_edges_are_let_in(changes: dict[str, Any]) -> None:
    admit(request(**changes), 0, None, 60)


def test_an_attempt_a_fraction_or_one_item_must_be_affordable() -> None:
    cheapest, limit = 3_600_000, {"run_seconds": 10.0}
    admit(request(**limit), 10_000, cheapest, 60)
    admit(request(items=1000, **limit), 10_000, cheapest, 60)
    admit(request(device_milli=500, **limit), 5_000, cheapest, 60)
    for changes, available in [({}, 9_999), ({"items": 5}, 9_999), ({"device_milli": 500}, 4_999)]:
        with pytest.raises(UnaffordableTask):
            admit(request(**changes, **limit), available, cheapest, 60)


def test_a_maximum_price_below_all_offers_is_the_most_that_the_task_pays() -> None:
    limit, cheapest = {"run_seconds": 10.0}, 3_600_000
    ceiling = {"max_price_micro_per_hour": 360_000}
    admit(request(**ceiling, **limit), 1_000, cheapest, 60)
    with pytest.raises(UnaffordableTask) as error_info:
        admit(request(**ceiling, **limit), 999, cheapest, 60)
    assert (
        "needs 0.001 credits to start, for its first 10 s at its maximum price"
        in error_info.value.detail
    )
    assert "--max-price" in error_info.value.hint
    # It is the price of the whole task, and of a fraction too.
    admit(request(device_milli=500, **ceiling, **limit), 1_000, cheapest, 60)
    # Offers within the maximum: the cheapest of them counts, however much more it allows.
    admit(request(max_price_micro_per_hour=10**12, **limit), 10_000, cheapest, 60)
    with pytest.raises(UnaffordableTask) as error_info:
        admit(request(max_price_micro_per_hour=10**12, **limit), 9_999, cheapest, 60)
    assert (
        "needs 0.01 credits to start, for its first 10 s at the lowest price"
        in error_info.value.detail
        and "price" not in error_info.value.hint
    )
    admit(request(**ceiling, **limit), 0, None, 60)


@pytest.mark.parametrize("filename", ["NUL", "con.py", "com1.tar.gz", "LPT¹.py", "aux .py"])
def test_a_script_is_not_named_like_a_device(filename: str) -> None:
    spec = ScriptSpec(filename, "print(1)")
    with pytest.raises(InvalidInput, match="reserved"):
        check_spec(spec)


@pytest.mark.parametrize(
    ("paths", "sentence"),
    [
        (["a/b", "a-b", "a b", "a"], "'a' is a file, so it cannot contain 'a/b'"),
        (["x", "é/ü/c", "é/ü"], "'é/ü' is a file, so it cannot contain 'é/ü/c'"),
        (["a", "a"], "'a' appears twice"),
        (["d/" * 90 + "e" * 256], "is longer than 255 bytes"),
        (["d/" * 90 + "é" * 128], "is longer than 255 bytes"),
        (["output/x"], "reserved for the task's own 'output'"),
    ],
)
def test_files_that_exclude_each_other_are_refused(paths: list[str], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        check_spec(_with_files(paths))


def test_many_deep_files_cost_little() -> None:
    """Each path was compared with all its directories: 60 ms for these."""
    spec = _with_files([*("a/" * 245 + str(number) for number in range(254)), "a.b", "a-b/c"])
    started = time.thread_time()
    check_spec(spec)
    assert time.thread_time() - started < 0.02


def _with_files(paths: list[str]) -> CommandSpec:
    blob = BlobRef("0" * 64, 0)
    return CommandSpec(("true",), files=tuple(NamedFile(path, blob) for path in paths))


@pytest.mark.parametrize(
    "spec",
    [
        CommandSpec(("a", "b\0")),
        CommandSpec(("a",), environment={"A": "\0"}),
        ScriptSpec("a.py", "", ("\0",)),
    ],
)
def test_no_argument_or_variable_has_a_nul(spec: CommandSpec | ScriptSpec) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        check_spec(spec)
