"""Report: a node says how an attempt goes and how it ended. Many at once, an answer for each.

Fenced by (attempt, token, node); idempotent: the same final report again gets the same answer,
another one a conflict, and an item of an array counts once. An attempt that was given up for lost,
and whose work nobody else has been granted since, is taken back by whatever its node says.

All that a request says of one attempt is taken in one transaction, and starts and ends of many
attempts in one for each hundred; whatever is in the way of one of them is found out in a
transaction of its own, so that nobody fails for another.
"""

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
import structlog

from potluck.decide.arrays.items import accept, sort_out
from potluck.decide.lifecycle import ITEM_REPORTABLE, REPORTABLE, is_consistent
from potluck.model.error import Conflict, InvalidInput, PotluckError
from potluck.model.event import EventKind
from potluck.model.ids import AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.auth.tokens import is_lease_token
from potluck.server.flow import values
from potluck.server.flow.adopt import readopt
from potluck.server.flow.lease import check_token, hear, stale
from potluck.server.flow.notify import hurry, tell
from potluck.server.flow.settle import Ending, end_attempt, end_attempts
from potluck.server.parts import Parts
from potluck.store import attempts, items, tasks
from potluck.store.attempts import EndingAttempt, Reported
from potluck.store.database import Connection
from potluck.store.events import Event
from potluck.store.items import LockedRange
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

log = structlog.get_logger()

# Their rows are locked for as long as all of them take.
_TOGETHER = 100


async def report(parts: Parts, owner: Owner, node_id: NodeId, reports: Reports) -> ReportAnswers:
    await hear(parts, owner, node_id)
    whole = await _take_whole(parts, node_id, reports.reports)
    if whole is not None:
        await hurry(parts)
        return ReportAnswers(whole)
    answers: dict[int, ReportAnswer] = {}
    for batch in _batches(reports.reports):
        taken = await _take_together(parts, node_id, [each for _, each in batch])
        for place, each in batch:
            attempt_id = each.lease.attempt_id
            answers[place] = (
                ReportAnswer(attempt_id, accepted=True)
                if attempt_id in taken
                else await _answer(parts, node_id, each)
            )
    await hurry(parts)
    return ReportAnswers([answers[place] for place in sorted(answers)])


async def _take_whole(
    parts: Parts, node_id: NodeId, reports: Sequence[Report]
) -> list[ReportAnswer] | None:
    """All that is said of one attempt, in one transaction; None if they are for one at a time.

    A short call is started and finished in one request. Of one attempt only: rows of several are
    locked kind by kind.
    """
    attempt_ids = {each.lease.attempt_id for each in reports}
    good = all(_has_true_token(parts, each) for each in reports)
    if len(attempt_ids) > 1 or len(reports) < 2 or not good:
        return None
    try:
        async with parts.database.transaction() as connection:
            told = {await _take(parts, connection, node_id, each) for each in reports}
    except (Conflict, InvalidInput):
        return None
    for task_id in told:
        if task_id is not None:
            await _wake(parts, task_id)
    return [ReportAnswer(each.lease.attempt_id, accepted=True) for each in reports]


def _batches(reports: Sequence[Report]) -> Iterator[list[tuple[int, Report]]]:
    """Reports of one kind, each attempt once; what is said of one attempt stays in its order."""
    waiting = list(enumerate(reports))
    while waiting:
        kind, said = type(waiting[0][1]), set[AttemptId]()
        batch: list[tuple[int, Report]] = []
        later: list[tuple[int, Report]] = []
        for place, each in waiting:
            fits = type(each) is kind and len(batch) < _TOGETHER
            if fits and each.lease.attempt_id not in said:
                batch.append((place, each))
            else:
                later.append((place, each))
            said.add(each.lease.attempt_id)
        yield batch
        waiting = later


async def _take_together(parts: Parts, node_id: NodeId, batch: Sequence[Report]) -> set[AttemptId]:
    """Those attempts of which the report was taken; the others are for one at a time."""
    good = [each for each in batch if _has_true_token(parts, each)]
    started = [each for each in good if isinstance(each, Started)]
    finished = [each for each in good if isinstance(each, Finished)]
    if len(good) < 2 or not (started or finished):
        return set()
    try:
        async with parts.database.transaction() as connection:
            if started:
                return await _start(connection, node_id, started)
            ended = await _finish_together(parts, connection, node_id, finished)
    except PotluckError:
        raise
    except Exception:
        log.warning("reports could not be taken together; one by one", exc_info=True)
        return set()
    for task_id in ended.values():
        await _wake(parts, task_id)
    return set(ended)


def _has_true_token(parts: Parts, each: Report) -> bool:
    return is_lease_token(parts.keys.lease, each.lease.attempt_id, each.lease.token)


async def _answer(parts: Parts, node_id: NodeId, each: Report) -> ReportAnswer:
    """One report in a transaction of its own."""
    try:
        check_token(parts, each.lease)
        async with parts.database.transaction() as connection:
            progressed = await _take(parts, connection, node_id, each)
    except (Conflict, InvalidInput) as refused:
        return ReportAnswer(each.lease.attempt_id, accepted=False, code=refused.code)
    if progressed is not None:
        await _wake(parts, progressed)
    return ReportAnswer(each.lease.attempt_id, accepted=True)


async def _wake(parts: Parts, task_id: TaskId) -> None:
    """Whoever waits for what it gives, and whoever follows it."""
    await parts.live.wake(topics.results(task_id))
    await parts.live.wake(topics.task(task_id))


async def _take(
    parts: Parts, connection: Connection, node_id: NodeId, each: Report
) -> TaskId | None:
    """The task of which somebody may wait for just this: he is not kept until all is told."""
    match each:
        case Preparing() | Started():
            await _go_on(parts, connection, node_id, each)
        case ItemsDone():
            return await _items_done(parts, connection, node_id, each)
        case Finished():
            return await _finished(parts, connection, node_id, each)
    return None


async def _go_on(
    parts: Parts, connection: Connection, node_id: NodeId, each: Preparing | Started
) -> None:
    """If the attempt was given up, once more when it has been taken back."""
    attempt_id = each.lease.attempt_id
    if await _progress(connection, node_id, each):
        return
    is_back = await readopt(parts, connection, attempt_id, node_id)
    if not (is_back and await _progress(connection, node_id, each)):
        raise stale(attempt_id)


async def _progress(
    connection: Connection, node_id: NodeId, each: Preparing | Started
) -> set[AttemptId]:
    if isinstance(each, Started):
        return await _start(connection, node_id, [each])
    return await _prepare(connection, node_id, [each])


async def _prepare(
    connection: Connection, node_id: NodeId, told: Sequence[Preparing]
) -> set[AttemptId]:
    """Answers those that are live."""
    attempt_ids = [each.lease.attempt_id for each in told]
    await attempts.lock_tasks(connection, attempt_ids)
    found = await attempts.prepare(connection, attempt_ids, node_id)
    news = [each for each in found if each.is_news]
    await tasks.touch(connection, [each.task_id for each in news])
    kind, state = EventKind.ATTEMPT_PREPARING, AttemptState.PREPARING
    await tell(connection, *(_attempt_event(each, node_id, kind, state) for each in news))
    return {each.attempt_id for each in found}


async def _start(
    connection: Connection, node_id: NodeId, told: Sequence[Started]
) -> set[AttemptId]:
    """Answers those that are live."""
    attempt_ids = [each.lease.attempt_id for each in told]
    await attempts.lock_tasks(connection, attempt_ids)
    found = await attempts.start(connection, attempt_ids, node_id)
    news = [each for each in found if each.is_news]
    begun = await tasks.start(connection, [each.task_id for each in news])
    await tasks.touch(connection, [each.task_id for each in news if each.task_id not in begun])
    happened: list[Event] = []
    for each in news:
        kind, state = EventKind.ATTEMPT_RUNNING, AttemptState.RUNNING
        happened.append(_attempt_event(each, node_id, kind, state))
        if each.task_id in begun:
            begun.discard(each.task_id)
            data = {"state": TaskState.RUNNING, **_about(each, node_id)}
            kind = EventKind.TASK_RUNNING
            happened.append(Event(each.consumer_id, kind, each.task_id, data=data))
    await tell(connection, *happened)
    return {each.attempt_id for each in found}


def _attempt_event(each: Reported, node_id: NodeId, kind: EventKind, state: AttemptState) -> Event:
    data = {"state": state, **_about(each, node_id)}
    return Event(each.consumer_id, kind, each.task_id, node_id, data)


def _about(each: Reported, node_id: NodeId) -> dict[str, str]:
    return {"attempt_id": each.attempt_id, "node_id": node_id}


async def _items_done(
    parts: Parts, connection: Connection, node_id: NodeId, each: ItemsDone
) -> TaskId:
    _check_items(each)
    attempt_id = each.lease.attempt_id
    locked = await items.lock_range(connection, attempt_id, node_id)
    if locked is None:
        # Whatever comes of it: another call of the node may have been quicker.
        await readopt(parts, connection, attempt_id, node_id)
        locked = await items.lock_range(connection, attempt_id, node_id)
    if locked is None:
        raise stale(attempt_id)
    await _accept(parts, connection, locked, each)
    return locked.task_id


async def _accept(
    parts: Parts, connection: Connection, locked: LockedRange, each: ItemsDone
) -> None:
    told = sort_out(each.returned, locked.held.remaining)
    if told is None:
        raise InvalidInput("Some of the items that were returned together count, and some do not.")
    returned = [each.returned[place] for place in told.runs]
    held = msgspec.structs.replace(locked.held, remaining=told.remaining)
    failed = [one.item for one in each.outcomes if one.reason is not EndReason.COMPLETED]
    before = await items.failures(connection, locked.task_id, failed)
    accepted = accept(each.outcomes, held, before, returned)
    if accepted.done:
        await items.accept(connection, locked.task_id, each.lease.attempt_id, accepted)
        await values.keep_items(parts, connection, locked, each, returned, accepted.failures)


def _check_items(each: ItemsDone) -> None:
    for outcome in each.outcomes:
        if outcome.reason not in ITEM_REPORTABLE:
            raise InvalidInput(f"An item can not have ended by {outcome.reason}.")
        _check_consistent(outcome.reason, outcome.exit_code)
    for run in each.returned:
        if run.end <= run.start:
            raise InvalidInput("Items were returned of which there are none.")


def _check_consistent(reason: EndReason, exit_code: int | None) -> None:
    if not is_consistent(reason, exit_code):
        raise InvalidInput(f"{reason} does not go with exit status {exit_code}.")


async def _finish_together(
    parts: Parts, connection: Connection, node_id: NodeId, told: Sequence[Finished]
) -> dict[AttemptId, TaskId]:
    """Ends those that nothing is in the way of, one of each task."""
    said = {each.lease.attempt_id: each for each in told if _is_reportable(each)}
    locked = await attempts.lock_many_for_end(connection, list(said))
    ready = {
        attempt.task_id: (attempt, _ending_of(said[attempt.id]))
        for attempt in locked
        if attempt.node_id == node_id and attempt.state.is_live
        if not _is_incomplete(attempt, said[attempt.id]) and values.fits(attempt, said[attempt.id])
    }
    if ready:
        await end_attempts(parts, connection, list(ready.values()))
    return {attempt.id: attempt.task_id for attempt, _ in ready.values()}


async def _finished(
    parts: Parts, connection: Connection, node_id: NodeId, each: Finished
) -> TaskId:
    if each.reason not in REPORTABLE:
        raise InvalidInput(f"A node can not say that an attempt ended by {each.reason}.")
    _check_consistent(each.reason, each.exit_code)
    values.check(each.value)
    attempt = await _ending(parts, connection, node_id, each)
    ending = _ending_of(each)
    if not attempt.state.is_live:
        _check_repeated(attempt, ending)
        return attempt.task_id
    if _is_incomplete(attempt, each):
        raise InvalidInput("A range is complete when each of its items has an outcome.")
    if not values.fits(attempt, each):
        raise InvalidInput("Only a function that is no array ends with a value or an error.")
    await end_attempt(parts, connection, attempt, ending)
    return attempt.task_id


def _is_reportable(each: Finished) -> bool:
    is_usual = each.reason in REPORTABLE and is_consistent(each.reason, each.exit_code)
    # What was uploaded may be in the way of one, and not of the others.
    return is_usual and (each.value is None or each.value.blob is None)


def _is_incomplete(attempt: EndingAttempt, each: Finished) -> bool:
    has_rest = attempt.array is not None and bool(attempt.array.remaining)
    return each.reason is EndReason.COMPLETED and has_rest


def _ending_of(each: Finished) -> Ending:
    report_hash = hashlib.sha256(codec.encode_json(each)).digest()
    return Ending(each.reason, each.exit_code, each.detail, each.usage, report_hash, each.value)


async def _ending(
    parts: Parts, connection: Connection, node_id: NodeId, each: Finished
) -> EndingAttempt:
    """The attempt under lock: live, or ended by a report, or taken back to be ended now."""
    attempt_id = each.lease.attempt_id
    attempt = await attempts.lock_for_end(connection, attempt_id)
    if attempt is not None and attempt.reason is EndReason.LEASE_EXPIRED:
        if _is_incomplete(attempt, each):  # its outcomes came too late
            raise stale(attempt_id)
        await readopt(parts, connection, attempt_id, node_id, is_over=True)
        attempt = await attempts.lock_for_end(connection, attempt_id)
    if attempt is None or attempt.node_id != node_id:
        raise stale(attempt_id)
    return attempt


def _check_repeated(attempt: EndingAttempt, ending: Ending) -> None:
    if attempt.report_hash is None:
        raise stale(attempt.id)
    if attempt.report_hash != ending.report_hash:
        raise Conflict(f"{attempt.id} was reported differently before.")
