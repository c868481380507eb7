"""What items are given: variables and arguments of their own, in every sandbox and kind."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from potluck.model.blob import Value
from potluck.model.task import EndReason
from potluck.model.task_spec import (
    MOST_ITEM_BYTES,
    CommandSpec,
    ContainerSpec,
    ItemInputs,
    TaskSpec,
)
from potluck.provider.sandbox.driver import Confinement, Driver, InputFailed, RunOutcome
from potluck.wire import item_file
from potluck.wire.provider import Grant
from tests.provider.attempt.test_item_runner import Ran, a_range, driver

__all__ = ["driver"]

SHOWS = """
import os, sys
seen = [os.environ.get(name) for name in ("POTLUCK_ITEM", "POTLUCK_ITEM_VALUE", "SEED")]
print(*seen, sys.argv[1:])
"""
GIVEN = [
    ItemInputs({"POTLUCK_ITEM_VALUE": "Ada"}, ("--name", "Ada")),
    ItemInputs({"POTLUCK_ITEM_VALUE": "ein Wörtchen\nin zwei Zeilen", "SEED": "7"}, ()),
    ItemInputs(),
    ItemInputs({"POTLUCK_ITEM": "99", "POTLUCK_ITEM_VALUE": "a liar"}),
]


def packed(item_inputs: list[ItemInputs]) -> Value:
    return Value(item_file.pack([msgspec.json.encode(item_input) for item_input in item_inputs]))


def a_given_range(source: str, **changes: Any) -> Grant:
    grant = a_range(source, range(len(GIVEN)))
    spec = replace(grant.spec, inputs=packed(GIVEN), environment={"SEED": "0"}, **changes)
    return replace(grant, spec=spec, items_total=len(GIVEN))


async def test_each_item_sees_only_its_own_inputs(driver: Driver, tmp_path: Path) -> None:
    item_run = Ran(driver, tmp_path)
    grant = a_given_range(SHOWS, arguments=("--all", "alike"))
    assert await item_run.run(grant) is EndReason.COMPLETED
    assert item_run.text().splitlines() == [
        *("item 0:", "0 Ada 0 ['--name', 'Ada']"),
        *("item 1:", "1 ein Wörtchen", "in zwei Zeilen 7 []"),
        *("item 2:", "2 None 0 ['--all', 'alike']"),
        *("item 3:", "3 a liar 0 ['--all', 'alike']"),
    ]


async def test_arguments_of_a_command_come_from_the_item(driver: Driver, tmp_path: Path) -> None:
    item_run = Ran(driver, tmp_path)
    item_inputs = [ItemInputs(arguments=("/bin/echo", "hello", name)) for name in ("Ada", "Grace")]
    spec = CommandSpec(("/bin/echo", "nobody"), inputs=packed(item_inputs))
    grant = replace(a_range("", range(2)), spec=spec, items_total=2)
    assert await item_run.run(grant) is EndReason.COMPLETED
    assert item_run.text() == "item 0:\nhello Ada\nitem 1:\nhello Grace\n"


class Recorder:
    """Runs nothing, and knows what it was asked for."""

    encloses_processes = True

    def __init__(self) -> None:
        self.asked: list[Confinement] = []

    async def run(self, confinement: Confinement, *_: Any, **__: Any) -> RunOutcome:
        self.asked.append(confinement)
        return RunOutcome(EndReason.COMPLETED, "", 0, 0.1, 0.1)


async def test_an_image_need_not_have_a_python(tmp_path: Path) -> None:
    """Each item has a sandbox of its own there, which is told."""
    recorder = Recorder()
    item_run = Ran(recorder, tmp_path)  # type: ignore[arg-type]
    item_inputs = [ItemInputs({"POTLUCK_ITEM_VALUE": "Ada"}, ("echo", "Ada")), ItemInputs()]
    spec: TaskSpec = ContainerSpec("busybox", ("echo", "nobody"), inputs=packed(item_inputs))
    grant = replace(a_range("", range(2)), spec=spec, items_total=2)
    assert await item_run.run(grant) is EndReason.COMPLETED
    assert [confinement.command for confinement in recorder.asked] == [
        ("echo", "Ada"),
        ("echo", "nobody"),
    ]
    item_values = [
        confinement.environment.get("POTLUCK_ITEM_VALUE") for confinement in recorder.asked
    ]
    assert item_values == ["Ada", None]
    assert [confinement.environment["POTLUCK_ITEM"] for confinement in recorder.asked] == ["0", "1"]


DAMAGED = [
    # (what is wrong, the items' file)
    ("fewer than there are items", packed(GIVEN[:2]).data),
    ("no JSON", item_file.pack([b"{"] * len(GIVEN))),
    ("no variable", item_file.pack([b'{"environment": {"a b": "1"}}'] * len(GIVEN))),
    ("too much", item_file.pack([b'"' + b"x" * MOST_ITEM_BYTES + b'"'] * len(GIVEN))),
]


@pytest.mark.parametrize("data", [row[1] for row in DAMAGED], ids=[row[0] for row in DAMAGED])
async def test_unreadable_inputs_end_the_attempt_with_that_reason(
    driver: Driver, tmp_path: Path, data: bytes
) -> None:
    item_run = Ran(driver, tmp_path)
    grant = a_given_range(SHOWS)
    grant = replace(grant, spec=replace(grant.spec, inputs=Value(data)))
    try:
        reason = await item_run.run(grant)
    except InputFailed as failure:  # as the runner of attempts takes it
        reason = failure.touched.reason
    assert reason is EndReason.INPUT_FAILED and not item_run.outcomes
