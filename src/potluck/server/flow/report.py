"""Report: a node says how an attempt goes and how it ended. Many at once, an answer for each.

Fenced by (attempt, token, node); idempotent: the same final report again gets the same answer,
another one a conflict, and an item of an array counts once. An attempt that was given up for lost,
and whose work nobody else has been granted since, is taken back by whatever its node says.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from potluck.decide.items import accept
from potluck.decide.lifecycle import ITEM_REPORTABLE, REPORTABLE, is_consistent
from potluck.model.error import Conflict, InvalidInput
from potluck.model.event import EventKind
from potluck.model.ids import NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.adopt import readopt
from potluck.server.flow.lease import check_token, hear, stale
from potluck.server.flow.notify import hurry, tell
from potluck.server.flow.settle import Ending, end_attempt
from potluck.server.parts import Parts
from potluck.store import attempts, items, tasks
from potluck.store.attempts import EndingAttempt, Reported
from potluck.store.database import Connection
from potluck.store.events import Event
from potluck.store.nodes import Owner
from potluck.wire import codec
from potluck.wire.provider import (
    Finished,
    ItemsDone,
    Preparing,
    Report,
    ReportAnswer,
    ReportAnswers,
    Reports,
    Started,
)

Found = TypeVar("Found")


async def report(parts: Parts, owner: Owner, node_id: NodeId, reports: Reports) -> ReportAnswers:
    await hear(parts, owner, node_id)
    answers = [await _answer(parts, node_id, each) for each in reports.reports]
    await hurry(parts)
    return ReportAnswers(answers)


async def _answer(parts: Parts, node_id: NodeId, each: Report) -> ReportAnswer:
    """One report in a transaction of its own, so that nobody fails for another."""
    try:
        check_token(parts, each.lease)
        async with parts.database.transaction() as connection:
            progressed = await _take(parts, connection, node_id, each)
    except (Conflict, InvalidInput) as refused:
        return ReportAnswer(each.lease.attempt_id, accepted=False, code=refused.code)
    if progressed is not None:
        await parts.live.wake(topics.task(progressed))
    return ReportAnswer(each.lease.attempt_id, accepted=True)


async def _take(
    parts: Parts, connection: Connection, node_id: NodeId, each: Report
) -> TaskId | None:
    """Answers an array that has come further without a change of state that would be told."""
    match each:
        case Preparing():
            await _preparing(parts, connection, node_id, each)
        case Started():
            await _started(parts, connection, node_id, each)
        case ItemsDone():
            return await _items_done(parts, connection, node_id, each)
        case Finished():
            await _finished(parts, connection, node_id, each)
    return None


async def _of_live(
    parts: Parts,
    connection: Connection,
    node_id: NodeId,
    each: Preparing | Started | ItemsDone,
    verb: Callable[[], Awaitable[Found | None]],
) -> Found:
    """What the verb finds; if the attempt was given up, once more when it has been taken back."""
    attempt_id = each.lease.attempt_id
    found = await verb()
    if found is None and await readopt(parts, connection, attempt_id, node_id):
        found = await verb()
    if found is None:
        raise stale(attempt_id)
    return found


async def _preparing(
    parts: Parts, connection: Connection, node_id: NodeId, each: Preparing
) -> None:
    attempt_id = each.lease.attempt_id
    await attempts.lock_task(connection, attempt_id)
    found = await _of_live(
        parts, connection, node_id, each, lambda: attempts.prepare(connection, attempt_id, node_id)
    )
    if found.is_news:
        await tasks.touch(connection, found.task_id)
        await tell(connection, _progress(found, node_id, each, AttemptState.PREPARING))


async def _started(parts: Parts, connection: Connection, node_id: NodeId, each: Started) -> None:
    attempt_id = each.lease.attempt_id
    await attempts.lock_task(connection, attempt_id)
    found = await _of_live(
        parts, connection, node_id, each, lambda: attempts.start(connection, attempt_id, node_id)
    )
    if not found.is_news:
        return
    happened = [_progress(found, node_id, each, AttemptState.RUNNING)]
    if await tasks.start(connection, found.task_id):
        data = {"state": TaskState.RUNNING, "attempt_id": attempt_id, "node_id": node_id}
        kind = EventKind.TASK_RUNNING
        happened.append(Event(found.consumer_id, kind, found.task_id, data=data))
    else:
        await tasks.touch(connection, found.task_id)
    await tell(connection, *happened)


_KINDS = {
    AttemptState.PREPARING: EventKind.ATTEMPT_PREPARING,
    AttemptState.RUNNING: EventKind.ATTEMPT_RUNNING,
}


def _progress(
    found: Reported, node_id: NodeId, each: Preparing | Started, state: AttemptState
) -> Event:
    data = {"state": state, "attempt_id": each.lease.attempt_id, "node_id": node_id}
    return Event(found.consumer_id, _KINDS[state], found.task_id, node_id, data)


async def _items_done(
    parts: Parts, connection: Connection, node_id: NodeId, each: ItemsDone
) -> TaskId:
    for outcome in each.outcomes:
        if outcome.reason not in ITEM_REPORTABLE:
            raise InvalidInput(f"An item can not have ended by {outcome.reason}.")
        _check_consistent(outcome.reason, outcome.exit_code)
    attempt_id = each.lease.attempt_id
    held = await _of_live(
        parts, connection, node_id, each, lambda: items.lock_range(connection, attempt_id, node_id)
    )
    failed = [one.item for one in each.outcomes if one.reason is not EndReason.COMPLETED]
    before = await items.failures(connection, held.task_id, failed)
    accepted = accept(each.outcomes, held.remaining, before, held.max_attempts)
    if accepted.done:
        await items.accept(connection, held.task_id, attempt_id, accepted)
    return held.task_id


def _check_consistent(reason: EndReason, exit_code: int | None) -> None:
    if not is_consistent(reason, exit_code):
        raise InvalidInput(f"{reason} does not go with exit status {exit_code}.")


async def _finished(parts: Parts, connection: Connection, node_id: NodeId, each: Finished) -> None:
    if each.reason not in REPORTABLE:
        raise InvalidInput(f"A node can not say that an attempt ended by {each.reason}.")
    _check_consistent(each.reason, each.exit_code)
    report_hash = hashlib.sha256(codec.encode_json(each)).digest()
    attempt = await _ending(parts, connection, node_id, each)
    if not attempt.state.is_live:
        _check_repeated(attempt, report_hash)
        return
    if each.reason is EndReason.COMPLETED and attempt.array and attempt.array.remaining:
        raise InvalidInput("A range is complete when each of its items has an outcome.")
    ending = Ending(each.reason, each.exit_code, each.detail, each.usage, report_hash)
    await end_attempt(parts, connection, attempt, ending)


async def _ending(
    parts: Parts, connection: Connection, node_id: NodeId, each: Finished
) -> EndingAttempt:
    """The attempt under lock: live, or ended by a report, or taken back to be ended now."""
    attempt_id = each.lease.attempt_id
    attempt = await attempts.lock_for_end(connection, attempt_id)
    if attempt is not None and attempt.reason is EndReason.LEASE_EXPIRED:
        await readopt(parts, connection, attempt_id, node_id, is_over=True)
        attempt = await attempts.lock_for_end(connection, attempt_id)
    if attempt is None or attempt.node_id != node_id:
        raise stale(attempt_id)
    return attempt


def _check_repeated(attempt: EndingAttempt, report_hash: bytes) -> None:
    if attempt.report_hash is None:
        raise stale(attempt.id)
    if attempt.report_hash != report_hash:
        raise Conflict(f"{attempt.id} was reported differently before.")
