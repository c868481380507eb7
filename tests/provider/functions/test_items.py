"""Arrays of functions whose interpreter breaks: who is blamed, and what is lost."""

import asyncio
import os
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.blob import Value
from potluck.model.lease import Lease
from potluck.model.task import MIB, EndReason
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt import unsent_results
from potluck.provider.attempt.item_blame import Blame, assign_blame
from potluck.provider.event import ItemsEnded
from potluck.provider.files import output_upload as collecting
from potluck.provider.functions.interpreter_main import ANSWER, AT, HEADER, _Answers
from potluck.provider.sandbox.driver import RunOutcome
from potluck.wire import plain_values
from potluck.wire.plain_values import decode
from potluck.wire.provider import ItemsDone
from tests.provider.fake_server import FakeServer
from tests.provider.functions.warm_calls import LIMITS, Shop, call_of, items_of
from tests.provider.test_daemon import providing

pytestmark = pytest.mark.usefixtures("by_value")


FAILED = EndReason.SANDBOX_FAILED
RECALLED = RunOutcome(EndReason.RECLAIMED, "")


@pytest.mark.parametrize(
    ("end_reason", "recalled", "is_item_known", "can_go_on", "expected"),
    [
        (EndReason.SIGNAL, None, True, True, Blame.ITEM),
        (EndReason.SIGNAL, None, True, False, Blame.ITEM),
        (EndReason.TIME_LIMIT, None, True, False, Blame.ITEM),
        (EndReason.SIGNAL, None, False, True, Blame.NONE),
        (EndReason.SIGNAL, None, False, False, Blame.ALL),
        (EndReason.SIGNAL, RECALLED, True, True, Blame.ITEM),
        (RECALLED.reason, RECALLED, True, True, Blame.ALL),
        (RECALLED.reason, RECALLED, False, True, Blame.ALL),
        (FAILED, None, True, True, Blame.ALL),
        (EndReason.INPUT_FAILED, None, False, True, Blame.ALL),
    ],
)
def test_end_reasons_have_a_fault(
    end_reason: EndReason,
    recalled: RunOutcome | None,
    is_item_known: bool,
    can_go_on: bool,
    expected: Blame,
) -> None:
    blame = assign_blame(end_reason, recalled, is_item_known=is_item_known, can_go_on=can_go_on)
    assert blame is expected


def exits_at_two(item: int) -> int:
    if item == 2:
        os._exit(3)
    time.sleep(0.15)
    return item


async def test_the_call_that_breaks_an_interpreter_is_blamed(walled: Shop) -> None:
    result = await walled.run(items_of(exits_at_two, range(4)))

    assert result.returned == {0: 0, 1: 1, 3: 3}
    assert {item: outcome.reason for item, outcome in result.failed.items()} == {
        2: EndReason.EXIT_STATUS
    }


def leaves_a_file(item: int) -> int:
    print(f"item {item}")
    if item == 3:
        os._exit(3)
    Path(os.environ["POTLUCK_OUTPUT"], "file").write_text(str(item))
    return item


@pytest.fixture
def slow_taking(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a slow disk."""
    read = collecting._content

    def slowly(descriptor: int, size: int) -> Iterator[bytes]:
        time.sleep(0.2)
        yield from read(descriptor, size)

    monkeypatch.setattr(collecting, "_content", slowly)


@pytest.mark.usefixtures("slow_taking")
async def test_with_care_the_next_begins_when_the_one_before_has_its_outcome(walled: Shop) -> None:
    careful = replace(LIMITS, run_seconds=0.9)
    result = await walled.run(items_of(leaves_a_file, range(6), limits=careful))

    assert sorted(result.returned) == [0, 1, 2, 4, 5]
    assert {item: outcome.reason for item, outcome in result.failed.items()} == {
        3: EndReason.EXIT_STATUS
    }
    assert result.text.split() == " ".join(f"item {item}" for item in range(6)).split()
    assert sorted(result.files) == ["0/file", "1/file", "2/file", "4/file", "5/file"]


def leaves_a_file_slowly(item: int) -> int:
    time.sleep(0.15 if item < 3 else 0)
    return leaves_a_file(item)


@pytest.mark.usefixtures("slow_taking")
async def test_outcomes_before_the_end_count(walled: Shop) -> None:
    """Also what nobody had heard yet when the interpreter ended; its files are still there."""
    result = await walled.run(items_of(leaves_a_file_slowly, range(6)))

    assert sorted(result.returned) == [0, 1, 2, 4, 5]
    assert {item: outcome.reason for item, outcome in result.failed.items()} == {
        3: EndReason.EXIT_STATUS
    }
    assert sorted(result.files) == ["0/file", "1/file", "2/file", "4/file", "5/file"]
    assert [result.text.count(f"item {item}") for item in (0, 1, 2, 4, 5)] == [1] * 5


class Unloadable:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise ValueError('no ' * 9_000)",)


async def test_load_errors_of_a_function_are_reported_once_in_full(walled: Shop) -> None:
    grant = items_of(len, range(2_000), (0, 900), (1_000, 2_000))
    assert isinstance(grant.spec, FunctionSpec)
    code = Value(pickle.dumps(Unloadable()))
    result = await walled.run(replace(grant, spec=replace(grant.spec, code=code)))

    assert sorted(result.failed) == [*range(900), *range(1_000, 2_000)]
    full_errors = [item for item, outcome in result.failed.items() if len(outcome.error) > 1_000]
    assert full_errors == [0, 1_000]
    short = decode(result.failed[7].error)
    assert short["type"] == "ValueError" and short["message"].startswith("no no")
    assert {outcome.detail for outcome in result.failed.values()} == {result.failed[0].detail}
    assert result.failed[0].last_lines.startswith("ValueError: no no")


def hundred_kilobytes(_: int) -> bytes:
    return bytes(100_000)


async def test_unsent_results_wait_inside_the_sandbox(
    walled: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not in the node's memory."""
    monkeypatch.setattr(unsent_results, "MOST_BYTES", MIB)
    running = asyncio.create_task(walled.run(items_of(hundred_kilobytes, range(60))))
    await asyncio.wait([running], timeout=1.0)
    events = [event for event in walled.told if isinstance(event, ItemsEnded)]
    assert sum(map(unsent_results.carried_bytes, events)) < 2 * MIB
    while not running.done():
        for event in walled.told[:]:
            walled.told.remove(event)
            if isinstance(event, ItemsEnded):
                lease = Lease(event.attempt_id, "")
                walled.backlogs[-1].remove(ItemsDone(lease, event.outcomes, event.returned))
        await asyncio.sleep(0.01)
    assert (await running).ended.reason is EndReason.COMPLETED


async def test_cancelling_an_array_does_not_wait_for_the_server(
    walled: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_results, "MOST_BYTES", MIB)
    running = asyncio.create_task(walled.run(items_of(hundred_kilobytes, range(60))))
    async with asyncio.timeout(20):
        while not walled.backlogs or walled.backlogs[-1].has_room:
            await asyncio.sleep(0.01)
    walled.recall.ask(EndReason.RECLAIMED, 0.1)
    async with asyncio.timeout(8):
        result = await running
    assert result.ended.reason is EndReason.RECLAIMED


async def test_accepted_results_free_space(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsent_results, "MOST_BYTES", 200_000)
    grant = items_of(hundred_kilobytes, range(10))
    async with providing(server, tmp_path):
        await server.offer(grant)
        finished = await server.outcome(grant.attempt_id)
    parts = [report for report in server.reports if isinstance(report, ItemsDone)]
    assert finished.reason is EndReason.COMPLETED
    assert (
        sum(
            run_of_items.end - run_of_items.start
            for part in parts
            for run_of_items in part.returned
        )
        == 10
    )


def test_an_item_is_answered_before_the_next_begins() -> None:
    """By what runs inside, though others wait until more have gathered."""
    provider_end, sandbox_end = socket.socketpair()
    with provider_end, sandbox_end:
        item_answers = _Answers(sandbox_end.fileno(), plain_values)
        item_answers.begin(is_careful=False, flush_seconds=0.3)
        item_answers.start_item(7)
        item_answers.busy.set()
        message = provider_end.recv(HEADER.size + AT.size, socket.MSG_WAITALL)
        item_answers.busy.clear()
        item_answers.returned(7, time.perf_counter(), b"value")

        provider_end.setblocking(False)
        answer_bytes = provider_end.recv(1000)
        assert message == HEADER.pack(b"A", AT.size) + AT.pack(7)
        assert answer_bytes[:1] == b"V"
        assert ANSWER.unpack_from(answer_bytes, HEADER.size)[2] == 7


def complains(item: int) -> int:
    print(f"item {item} complains", file=sys.stderr)
    if item == 2:
        raise ValueError("two")
    if item == 3:
        os._exit(7)
    return item


async def test_a_failed_item_has_the_end_of_its_own_stderr(walled: Shop) -> None:
    result = await walled.run(items_of(complains, range(6)))
    assert sorted(result.returned) == [0, 1, 4, 5]
    assert result.failed[2].last_lines == "item 2 complains\nValueError: two"
    assert result.failed[2].detail == "", "it is in the clear in the database"
    assert decode(result.failed[2].error)["stderr"] == "item 2 complains\n"
    assert result.failed[3].last_lines == "item 3 complains", "once, though it ran twice"


def leaves_new_files(item: int) -> int:
    Path("same.pt").write_text(f"{item}")
    Path(f"own-{item}.txt").write_text("not kept")
    if item == 1:
        raise ValueError("after it was written")
    return item


async def test_new_files_that_match_are_kept_of_a_call_and_of_each_item(walled: Shop) -> None:
    limits = replace(LIMITS, keep=("*.pt",))
    result = await walled.run(items_of(leaves_new_files, range(3), limits=limits))
    assert sorted(result.returned) == [0, 2]
    assert sorted(result.files) == ["0/same.pt", "1/same.pt", "2/same.pt"]
    for number in (5, 6):  # in the same warm interpreter
        called = await walled.run(replace(call_of(leaves_new_files, number), limits=limits))
        assert called.files == ["same.pt"]
