"""Call streams: appended, granted to standing leases, reported, cancelled, closed."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.blob import INLINE_BYTES, Value
from potluck.model.error import Conflict, InvalidInput, NotFound
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import EndReason, ItemRange, TaskState
from potluck.model.task_spec import FunctionSpec, ScriptSpec
from potluck.model.usage import Usage
from potluck.server import topics
from potluck.server.flow.housekeeping.close_streams import close_streams_once
from potluck.server.flow.housekeeping.expire import expire_once
from potluck.server.flow.lease import lease
from potluck.server.flow.report import request_work, result_poll, stream_report
from potluck.server.flow.schedule.release import release_once
from potluck.server.flow.settle import calls, slices
from potluck.server.flow.submit import append, retry, submit
from potluck.server.leader.memory import LeaderMemory
from potluck.store.tasks import function_results, item_failures, streams
from potluck.wire import item_file
from potluck.wire.consumer import ItemCounts, RetryTask, TaskView
from potluck.wire.provider import (
    AcquireLeases,
    CallPosition,
    CancelledItems,
    Finished,
    Grant,
    ItemOutcome,
    ItemsDone,
    LeasesGranted,
    ReturnedItems,
    Started,
)
from potluck.wire.results import AppendItems, AskResults, Results, Wanted
from tests.server.flow.pool import Pool, lease_of, request

SPEC = FunctionSpec("f", Value(b"code"), Value(), "3.11")


def inputs(*values: bytes) -> bytes:
    return item_file.pack(list(values))


async def open_stream(pool: Pool, *values: bytes, **changes: Any) -> TaskView:
    values = values or (b"0",)
    spec = replace(SPEC, inputs=Value(inputs(*values)))
    task_request = replace(request(items=len(values), **changes), spec=spec, is_stream=True)
    return await submit.submit(pool.services, pool.alice, task_request, changes.get("key"))


async def add(pool: Pool, task_id: TaskId, start: int, *values: bytes) -> int:
    new = AppendItems(start, inputs(*values))
    return (await append.append(pool.services, pool.alice, task_id, new)).items


async def poll(
    pool: Pool, node_id: NodeId, grant: Grant, next_item: int, cancelled: int = 0
) -> LeasesGranted:
    positions = (CallPosition(grant.attempt_id, next_item, cancelled),)
    poll_request = AcquireLeases((lease_of(grant),), wait_seconds=0, streams=positions)
    return await lease.acquire(pool.services, pool.bobs, node_id, poll_request)


def items_of(response: LeasesGranted) -> list[tuple[int, int, list[bytes]]]:
    return [(part.start, part.end, item_file.unpack(part.inputs, 1_000)) for part in response.items]


def returned(grant: Grant, start: int, end: int, seconds: float = 0.001) -> ItemsDone:
    values = Value(item_file.pack([b"r%d" % item for item in range(start, end)]))
    return ItemsDone(lease_of(grant), returned=(ReturnedItems(start, end, seconds, values),))


def failed(grant: Grant, item: int) -> ItemsDone:
    outcome = ItemOutcome(item, EndReason.EXCEPTION, 0.001, error=b"\xc0")
    return ItemsDone(lease_of(grant), (outcome,))


async def begun(
    pool: Pool, *values: bytes, price_micro_per_hour: int = 0, **changes: Any
) -> tuple[NodeId, Grant, TaskId]:
    """A stream whose first item is done by a node that holds a standing lease."""
    node = await pool.offer(price_micro_per_hour=price_micro_per_hour)
    task = await open_stream(pool, *values, **changes)
    await pool.plan()
    poll_request = AcquireLeases(wait_seconds=0, streams=())
    response = await lease.acquire(pool.services, pool.bobs, node.node_id, poll_request)
    (grant,) = response.grants
    assert grant.linger_seconds is not None and items_of(response)[0][0] == 0
    codes = await pool.report(node.node_id, Started(lease_of(grant)), returned(grant, 0, 1))
    assert codes == ["accepted"] * 2
    return node.node_id, grant, task.id


async def results(pool: Pool, task_id: TaskId, behind: int = 0) -> Results:
    results_request = AskResults((Wanted(task_id, behind),), 0)
    return await result_poll.wait_for_results(pool.services, pool.alice, results_request)


async def end(pool: Pool, node_id: NodeId, grant: Grant) -> list[str]:
    usage = Usage(run_seconds=1_000.0)
    finish = Finished(lease_of(grant), EndReason.COMPLETED, 0, usage=usage)
    return await pool.report(node_id, finish)


async def test_a_call_goes_to_the_standing_lease_with_its_append(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    assert await add(pool, task_id, 1, b"one", b"two") == 3
    counts = (await pool.task(task_id)).items
    assert counts is not None and (counts.total, counts.pending, counts.succeeded) == (3, 0, 1)
    assert items_of(await poll(pool, node_id, grant, 1)) == [(1, 3, [b"one", b"two"])]
    assert items_of(await poll(pool, node_id, grant, 1)) == [(1, 3, [b"one", b"two"])], "again"
    assert await pool.report(node_id, returned(grant, 1, 3)) == ["accepted"]
    (result,) = (await results(pool, task_id, 1)).results
    assert [(piece.start, piece.end) for piece in result.pieces] == [(1, 3)]
    assert item_file.unpack(result.pieces[0].value.data, 2) == [b"r1", b"r2"]
    await pool.check()


async def test_an_append_is_safe_to_repeat_and_never_overwrites(pool: Pool) -> None:
    task = await open_stream(pool, b"0")
    assert [await add(pool, task.id, 1, b"a", b"b") for _ in range(2)] == [3, 3]
    for start, values in ((1, (b"a", b"x")), (1, (b"a",)), (0, (b"0", b"1")), (2, (b"b",))):
        with pytest.raises(Conflict, match="other items"):
            await add(pool, task.id, start, *values)
    with pytest.raises(Conflict, match="only 3 items"):
        await add(pool, task.id, 4, b"gap")
    assert (await pool.task(task.id)).items.total == 3  # type: ignore[union-attr]
    await pool.check()


async def test_a_stream_is_opened_once_for_each_key(pool: Pool) -> None:
    spec = replace(SPEC, inputs=Value(inputs(b"0")))
    task_request = replace(request(items=1), spec=spec, is_stream=True)
    opened = [
        (await submit.submit(pool.services, pool.alice, task_request, "key")).id for _ in range(2)
    ]
    assert opened[0] == opened[1]
    assert await add(pool, opened[0], 1, b"1") == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"items": None}, "1 to 1000"),
        ({"items": 2}, "more or fewer inputs"),
        ({"delay_seconds": 1.0}, "cannot have"),
        ({"start_within_seconds": 1.0}, "cannot have"),
        ({"spec": ScriptSpec("a.py", "")}, "Only calls of a function"),
        ({"spec": replace(SPEC, inputs=Value(b"junk"))}, "damaged"),
    ],
)
async def test_invalid_streams_are_refused(
    pool: Pool, changes: dict[str, Any], sentence: str
) -> None:
    spec = replace(SPEC, inputs=Value(inputs(b"0")))
    task_request = replace(request(items=1), spec=spec, is_stream=True)
    with pytest.raises(InvalidInput, match=sentence):
        await submit.submit(pool.services, pool.alice, replace(task_request, **changes), None)


async def test_bad_appends(pool: Pool) -> None:
    array = await pool.submit(items=3)
    stream = await open_stream(pool)
    for inputs_, error in ((b"junk", InvalidInput), (inputs(), InvalidInput)):
        with pytest.raises(error):
            await append.append(pool.services, pool.alice, stream.id, AppendItems(1, inputs_))
    with pytest.raises(Conflict, match="not a call stream"):
        await add(pool, array.id, 3, b"x")
    with pytest.raises(NotFound):
        new = AppendItems(1, inputs(b"x"))
        await append.append(pool.services, pool.bob, stream.id, new)
    with pytest.raises(Conflict, match="more than 10000"):
        await pool.sql("UPDATE tasks SET items = 9999 WHERE id = $1", stream.id)
        await add(pool, stream.id, 9_999, b"a", b"b")


async def test_a_failed_call_does_not_fail_the_stream_and_is_retried_elsewhere(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool, max_attempts=2)
    await add(pool, task_id, 1, b"bad")
    assert await pool.report(node_id, failed(grant, 1)) == ["accepted"]
    # Never to the same attempt, whose report may come twice; it ends, and another one has it.
    assert (await poll(pool, node_id, grant, 2)).released == [grant.attempt_id]
    assert await pool.report(node_id, failed(grant, 1)) == ["accepted"]
    await pool.check()
    assert await end(pool, node_id, grant) == ["accepted"]
    (assignment,) = (await pool.plan()).assigned
    assert assignment.items == ItemRange(1, 2)
    (second_grant,) = await pool.fetch(node_id)
    assert item_file.unpack(second_grant.spec.inputs.data, 2)[1] == b"bad"  # type: ignore[union-attr]
    await pool.report(node_id, Started(lease_of(second_grant)), failed(second_grant, 1))
    (result,) = (await results(pool, task_id, 1)).results
    assert [(piece.start, piece.is_error) for piece in result.pieces] == [(1, True)]
    call = await calls.view(pool.services, pool.alice, task_id, 1)
    assert (call.id, call.state, call.reason) == (
        f"{task_id}#1",
        TaskState.FAILED,
        EndReason.EXCEPTION,
    )
    await end(pool, node_id, second_grant)
    assert (await pool.task(task_id)).state is TaskState.QUEUED
    await append.close(pool.services, pool.alice, task_id)
    assert (await pool.task(task_id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_a_lost_answer_to_a_report_counts_nothing_twice(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1", b"2")
    for _ in range(2):
        assert await pool.report(node_id, returned(grant, 1, 3)) == ["accepted"]
    counts = (await pool.task(task_id)).items
    assert counts is not None and counts.succeeded == 3
    assert len((await results(pool, task_id)).results[0].pieces) == 2
    await pool.check()


async def test_a_bad_report_is_refused_by_itself(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"one")
    assert items_of(await poll(pool, node_id, grant, 1)) == [(1, 2, [b"one"])]
    codes = await pool.report(node_id, returned(grant, 5, 5), returned(grant, 1, 2))
    assert codes == ["invalid_input", "accepted"]
    counts = (await pool.task(task_id)).items
    assert counts is not None and counts.succeeded == 2


async def test_one_request_reports_a_bounded_number_of_calls(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_report, "_MOST_RUNS", 2)
    monkeypatch.setattr(request_work, "MOST_TOGETHER", 10)
    monkeypatch.setattr(request_work, "MOST_ALONE", 0)
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"one", b"two", b"three")
    assert items_of(await poll(pool, node_id, grant, 1))[0][:2] == (1, 4)
    reports = [returned(grant, item, item + 1) for item in (1, 2, 3)]
    assert await pool.report(node_id, *reports) == ["accepted", "unavailable", "unavailable"]
    assert await pool.report(node_id, *reports[1:]) == ["accepted"] * 2
    counts = (await pool.task(task_id)).items
    assert counts is not None and counts.succeeded == 4


async def test_calls_granted_while_the_attempt_ended_are_returned(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"late")
    assert await end(pool, node_id, grant) == ["accepted"], "it does not know of the call"
    task = await pool.task(task_id)
    assert task.state is TaskState.QUEUED and task.items is not None and task.items.pending == 1
    await pool.check()
    await pool.plan()
    (second_grant,) = await pool.fetch(node_id)
    assert second_grant.items == [ItemRange(1, 2)]


GUARDS = {
    "lease": "UPDATE attempts SET lease_expires_at = now()",
    "released": "UPDATE attempts SET released_at = now()",
    "credit": "UPDATE attempts SET unfunded_at = now()",
    "silent node": "UPDATE nodes SET state = 'silent'",
    "cordoned node": "UPDATE nodes SET cordoned_at = now()",
    "paused device": "UPDATE devices SET availability = 'paused'",
    "device of another": "UPDATE devices SET standing = 'contested'",
    "suspended owner": "UPDATE accounts SET suspended_at = now() WHERE 'provider' = ANY(roles)",
    "suspended caller": "UPDATE accounts SET suspended_at = now() WHERE 'consumer' = ANY(roles)",
}


@pytest.mark.parametrize("guard", GUARDS)
async def test_a_standing_lease_gets_a_call_only_while_its_guard_holds(
    pool: Pool, guard: str
) -> None:
    _, grant, task_id = await begun(pool)
    await pool.sql(GUARDS[guard])
    await add(pool, task_id, 1, b"1")
    remaining = "SELECT remaining::text FROM attempts WHERE id = $1"
    assert await pool.sql(remaining, grant.attempt_id) == "{}"
    assert (await pool.task(task_id)).items.pending == 1  # type: ignore[union-attr]
    await pool.check()


async def test_a_standing_lease_whose_node_key_is_revoked_gets_no_call(pool: Pool) -> None:
    _, grant, task_id = await begun(pool)
    await pool.sql(
        "INSERT INTO node_keys (id, account_id, address, machine, origin, scopes, nonce,"
        " signature, issued_at, expires_at, revoked_at)"
        " SELECT 'key', account_id, '', '', '', '{node}', '', '', now(),"
        " now() + interval '1 day', now() FROM nodes"
    )
    await pool.sql("UPDATE nodes SET node_key_id = 'key'")
    await add(pool, task_id, 1, b"1")
    remaining = "SELECT remaining::text FROM attempts WHERE id = $1"
    assert await pool.sql(remaining, grant.attempt_id) == "{}"


async def test_only_the_node_with_the_token_reports_calls(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    other = (await pool.offer()).node_id
    await add(pool, task_id, 1, b"1")
    assert await pool.report(other, returned(grant, 1, 2)) == ["stale_lease"]
    stolen = replace(grant, token=grant.token[:-1] + ("0" if grant.token[-1] != "0" else "1"))
    assert await pool.report(node_id, returned(stolen, 1, 2)) == ["stale_lease"]
    assert (await pool.task(task_id)).items.succeeded == 1  # type: ignore[union-attr]


async def test_a_call_keeps_its_stream_open(pool: Pool) -> None:
    _, _, task_id = await begun(pool)
    await pool.sql("UPDATE tasks SET open_until = now() + interval '1 s'")
    await add(pool, task_id, 1, b"1")
    assert await pool.sql("SELECT open_until > now() + interval '200 s' FROM tasks")


async def test_an_attempt_is_idle_from_its_last_report_to_its_next_call(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    is_idle = "SELECT idle_since IS NOT NULL FROM attempts"
    assert await pool.sql(is_idle)
    await add(pool, task_id, 1, b"1", b"2")
    assert not await pool.sql(is_idle)
    await pool.report(node_id, returned(grant, 1, 2))
    assert not await pool.sql(is_idle)
    await pool.report(node_id, returned(grant, 2, 3))
    assert await pool.sql(is_idle)


async def test_a_hold_covers_the_calls_that_are_granted(pool: Pool) -> None:
    """A call may take an hour and cost a credit; there is credit for one at a time."""
    await pool.give(pool.alice, 1_500_000)
    node_id, grant, task_id = await begun(pool, run_seconds=3_600.0, price_micro_per_hour=1_000_000)
    await add(pool, task_id, 1, b"1", b"2")
    assert [part[:2] for part in items_of(await poll(pool, node_id, grant, 1))] in ([(1, 2)], [])
    await pool.check()


async def test_idle_time_costs_nothing_whatever_a_node_claims(pool: Pool) -> None:
    await pool.give(pool.alice, 5_000_000_000)
    node_id, grant, task_id = await begun(
        pool, run_seconds=1_000.0, price_micro_per_hour=3_600_000_000
    )
    await pool.sql(
        "UPDATE attempts SET started_at = now() - interval '100 s', assigned_at = now() - "
        "interval '100 s', fetched_at = now() - interval '100 s', idle_since = now() - "
        "interval '99 s', items_seconds = 0.5"
    )
    await add(pool, task_id, 1, b"1")
    await pool.report(node_id, returned(grant, 1, 2, seconds=60.0))
    await end(pool, node_id, grant)
    charge = (await pool.task(task_id)).charge_micro
    # A second is a credit: it had the device for 100 s, and had something to do for 1 s of them.
    assert 500_000 <= charge <= 1_200_000
    await pool.check()


async def test_a_slice_charges_the_work_and_not_the_waiting(pool: Pool) -> None:
    await pool.give(pool.alice, 5_000_000_000)
    _, _, task_id = await begun(pool, run_seconds=1_000.0, price_micro_per_hour=3_600_000_000)
    await pool.sql(
        "UPDATE attempts SET started_at = now() - interval '100 s', items_seconds = 2,"
        " next_slice_at = now()"
    )
    assert await slices.settle_slices(pool.services, pool.leads) == 1
    assert (await pool.task(task_id)).charge_micro == 2_000_000
    await pool.check()


async def test_calls_of_a_lost_node_run_elsewhere_and_count_once(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1", b"2", b"3")
    assert await pool.report(node_id, returned(grant, 1, 2)) == ["accepted"]
    await pool.sql("UPDATE attempts SET lease_expires_at = now()")
    assert await expire_once(pool.services, pool.leads) == 1
    other = await pool.offer()
    await pool.sql("UPDATE nodes SET is_polling = (id = $1)", other.node_id)
    await pool.plan()
    (second_grant,) = await pool.fetch(other.node_id)
    assert second_grant.items[0].start == 2
    assert await pool.report(node_id, returned(grant, 2, 4)) == ["stale_lease"]
    await pool.report(
        other.node_id,
        Started(lease_of(second_grant)),
        returned(second_grant, 2, second_grant.items[-1].end),
    )
    await pool.check()


async def test_a_call_is_cancelled_wherever_it_is(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1", b"2", b"3")
    call_view = await calls.cancel(pool.services, pool.alice, task_id, 2)
    assert (call_view.state, call_view.id) == (TaskState.CANCELLED, f"{task_id}#2")
    await pool.check()
    # The node did not know: the run counts without it.
    assert await pool.report(node_id, returned(grant, 1, 4)) == ["accepted"]
    task_view = await pool.task(task_id)
    assert task_view.is_stream and task_view.items == ItemCounts(4, 0, 3, 0, cancelled=1)
    assert await pool.report(node_id, returned(grant, 1, 4)) == ["accepted"], "again"
    (result,) = (await results(pool, task_id)).results
    assert result.cancelled == [ItemRange(2, 3)]
    await calls.cancel(pool.services, pool.alice, task_id, 2)  # again
    with pytest.raises(Conflict, match="already succeeded"):
        await calls.cancel(pool.services, pool.alice, task_id, 1)
    with pytest.raises(NotFound):
        await calls.cancel(pool.services, pool.alice, task_id, 9)
    with pytest.raises(NotFound):
        await calls.cancel(pool.services, pool.bob, task_id, 3)
    await pool.check()


async def test_a_node_learns_once_that_a_call_which_it_has_is_cancelled(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1", b"2", b"3")
    assert not (await poll(pool, node_id, grant, 4)).cancelled
    async with pool.services.live.listen(topics.node(node_id)) as listener:
        await calls.cancel(pool.services, pool.alice, task_id, 2)
        assert await listener.wait(10)
    response = await poll(pool, node_id, grant, 4)
    assert response.cancelled == [CancelledItems(grant.attempt_id, [ItemRange(2, 3)])]
    assert not response.stop, "the calls around it continue"
    assert not (await poll(pool, node_id, grant, 4, cancelled=1)).cancelled


async def test_cancelled_calls_that_a_node_has_passed_are_told_as_one_range(pool: Pool) -> None:
    """Only their number counts: a poll does not carry all cancelled calls of a long stream."""
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, *[b"call"] * 20)
    for item in range(2, 11, 2):
        await calls.cancel(pool.services, pool.alice, task_id, item)
    all_of_them = [ItemRange(item, item + 1) for item in range(2, 11, 2)]
    (unpassed,) = (await poll(pool, node_id, grant, 21)).cancelled
    assert unpassed.items == all_of_them, "it may still run each"
    assert await pool.report(node_id, returned(grant, 1, 12)) == ["accepted"]
    await calls.cancel(pool.services, pool.alice, task_id, 15)
    (cancelled,) = (await poll(pool, node_id, grant, 21, cancelled=5)).cancelled
    assert cancelled.items == [ItemRange(7, 12), ItemRange(15, 16)] and cancelled.count == 6
    assert not (await poll(pool, node_id, grant, 21, cancelled=6)).cancelled


async def test_a_call_that_runs_is_stopped_with_its_attempt_and_the_stream_goes_on(
    pool: Pool,
) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"runs", b"next")
    await calls.cancel(pool.services, pool.alice, task_id, 1)
    assert (await poll(pool, node_id, grant, 3)).stop == [grant.attempt_id]
    await pool.plan()
    (second_grant,) = await pool.fetch(node_id)
    assert second_grant.items == [ItemRange(2, 3)]
    await pool.check()


async def test_each_call_has_a_state_and_those_with_a_result_have_it(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1", b"2", b"3", b"4")
    await pool.report(node_id, failed(grant, 1), returned(grant, 2, 3))
    await calls.cancel(pool.services, pool.alice, task_id, 4)
    async with pool.services.database.transaction() as connection:
        states = await item_failures.read_states(connection, task_id)
        values = [
            await function_results.find(connection, pool.services.vault, task_id, item)
            for item in (1, 2, 3)
        ]
    assert states is not None and states.is_stream and states.open_until is not None
    assert (states.total, states.pending, states.running) == (5, [], [ItemRange(3, 4)])
    assert (states.failed, states.cancelled) == ([ItemRange(1, 2)], [ItemRange(4, 5)])
    error, value, missing_value = values
    assert error is not None and error.is_error and missing_value is None
    assert value is not None and item_file.unpack(value.value.data, 1) == [b"r2"]


async def test_the_last_cancelled_call_ends_a_closed_stream(pool: Pool) -> None:
    task = await open_stream(pool, b"0")
    assert (await append.close(pool.services, pool.alice, task.id)).state is TaskState.QUEUED
    await calls.cancel(pool.services, pool.alice, task.id, 0)
    assert (await pool.task(task.id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_a_call_is_retried_as_a_task(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"arguments")
    with pytest.raises(Conflict, match="has not ended"):
        await calls.retry(pool.services, pool.alice, task_id, 1, RetryTask(), None)
    await pool.report(node_id, failed(grant, 1))
    second_retry = await calls.retry(pool.services, pool.alice, task_id, 1, RetryTask(), "key")
    same = await calls.retry(pool.services, pool.alice, task_id, 1, RetryTask(), "key")
    assert (second_retry.items, second_retry.retry_of, second_retry.id) == (None, task_id, same.id)
    await end(pool, node_id, grant)
    await pool.plan()
    (single,) = await pool.fetch(node_id)
    assert single.spec.inputs == Value(b"arguments") and single.linger_seconds is None


async def test_a_whole_stream_is_retried_as_an_array_of_what_did_not_succeed(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1", b"2")
    await pool.report(node_id, failed(grant, 1))
    await calls.cancel(pool.services, pool.alice, task_id, 2)
    await append.close(pool.services, pool.alice, task_id)
    retried = await retry.retry_task(pool.services, pool.alice, task_id, RetryTask(), None)
    counts = retried.items
    assert counts is not None and (counts.total, counts.pending, counts.succeeded) == (3, 2, 1)
    await pool.plan()
    (single,) = await pool.fetch(node_id)
    assert item_file.unpack(single.spec.inputs.data, 3) == [b"0", b"1", b"2"]  # type: ignore[union-attr]


async def test_a_retry_does_not_read_arguments_that_no_array_could_have(pool: Pool) -> None:
    large = bytes(261_000)
    task_id = (await open_stream(pool, large)).id
    for start in range(1, 12):
        await add(pool, task_id, start, large)
    async with pool.services.database.statement() as connection:
        vault = pool.services.vault
        assert await streams.read_all_inputs(connection, vault, task_id, INLINE_BYTES) == []
        assert await streams.read_inputs(connection, vault, task_id, 11) == large
    with pytest.raises(Conflict, match="too large"):
        await retry.retry_task(pool.services, pool.alice, task_id, RetryTask(), None)


async def test_a_closed_stream_takes_nothing_and_ends_when_it_is_done(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1")
    assert (await append.close(pool.services, pool.alice, task_id)).state is TaskState.RUNNING
    with pytest.raises(Conflict, match="is closed"):
        await add(pool, task_id, 2, b"2")
    assert await add(pool, task_id, 1, b"1") == 2, "it was appended before"
    assert (await poll(pool, node_id, grant, 2)).released == [grant.attempt_id]
    await pool.report(node_id, returned(grant, 1, 2))
    await end(pool, node_id, grant)
    assert (await pool.task(task_id)).state is TaskState.SUCCEEDED
    await append.close(pool.services, pool.alice, task_id)  # again
    with pytest.raises(Conflict, match="not a call stream"):
        await append.close(pool.services, pool.alice, (await pool.submit()).id)
    await pool.check()


@pytest.mark.parametrize(
    "age", ["open_until = now()", "created_at = now() - interval '2 h'"], ids=["idle", "old"]
)
async def test_an_idle_or_old_stream_is_closed(pool: Pool, age: str) -> None:
    node_id, grant, task_id = await begun(pool)
    await pool.sql(f"UPDATE tasks SET {age}")
    with pytest.raises(Conflict, match="is closed"):
        await add(pool, task_id, 1, b"1")
    await close_streams_once(pool.services)
    assert (await poll(pool, node_id, grant, 1)).released == [grant.attempt_id]
    await end(pool, node_id, grant)
    assert (await pool.task(task_id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_an_idle_stream_leaves_its_device_to_whoever_waits(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await pool.sql("UPDATE attempts SET idle_since = now() - interval '1 s'")
    assert await waiting_release(pool) is None, "nobody waits"
    await pool.submit()
    assert await waiting_release(pool) is not None
    assert (await poll(pool, node_id, grant, 1)).released == [grant.attempt_id]
    await add(pool, task_id, 1, b"1")
    assert items_of(await poll(pool, node_id, grant, 1)) == []
    await pool.check()


async def test_a_busy_stream_keeps_its_device_for_a_turn(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1", b"2")
    await pool.submit()
    release_seconds = await waiting_release(pool)
    assert (
        release_seconds is not None
        and release_seconds <= pool.services.settings.stream_turn_seconds
    )
    assert (await poll(pool, node_id, grant, 1)).released == []
    await pool.sql("UPDATE attempts SET assigned_at = now() - interval '2 s'")
    await waiting_release(pool)
    assert (await poll(pool, node_id, grant, 1)).released == [grant.attempt_id]


async def waiting_release(pool: Pool) -> float | None:
    memory = LeaderMemory(pool.services)
    await memory.begin()
    await memory.catch_up()
    memory.known.scheduler.plan(memory.now, 10, lambda: False)
    return await release_once(pool.services, memory.known.scheduler.wanted_nodes(8))


async def test_a_poll_that_waits_is_woken_by_an_append(pool: Pool) -> None:
    pool.services = replace(
        pool.services, settings=replace(pool.services.settings, poll_seconds=20.0)
    )
    node_id, grant, task_id = await begun(pool)
    positions = (CallPosition(grant.attempt_id, 1),)
    poll_request = AcquireLeases((lease_of(grant),), wait_seconds=20, streams=positions)
    waiting = asyncio.create_task(lease.acquire(pool.services, pool.bobs, node_id, poll_request))
    await asyncio.sleep(0)
    await add(pool, task_id, 1, b"1")
    async with asyncio.timeout(10):
        assert items_of(await waiting) == [(1, 2, [b"1"])]


async def test_a_node_without_rights_gets_no_inputs(pool: Pool) -> None:
    node_id, grant, task_id = await begun(pool)
    await add(pool, task_id, 1, b"1")
    await pool.sql("UPDATE accounts SET suspended_at = now() WHERE id = $1", pool.bob)
    assert items_of(await poll(pool, node_id, grant, 1)) == []
