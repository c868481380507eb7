"""Settle: the transaction that ends an attempt, whatever ended it, pays for it too.

Report, cancel, expiry and shutdown all come through `end_attempts`; there is no other way out.
"""

import random
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from potluck.decide import retry_policy
from potluck.decide.arrays.items import ArrayPart, ItemFailure, RangeEnd, after_range
from potluck.decide.charges import charge_micro, settle_entries
from potluck.decide.lifecycle import (
    ATTEMPT_STATE_AFTER,
    attempt_may_become,
    is_nodes_fault,
    task_may_become,
)
from potluck.model.backoff import BackOff
from potluck.model.blob import Value
from potluck.model.event import EventKind
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.model.usage import Usage
from potluck.server.flow.report import function_results
from potluck.server.flow.report.attempt_progress import Course, about
from potluck.server.services import Parts
from potluck.store.attempts import changes
from potluck.store.attempts.attempts import EndingAttempt
from potluck.store.attempts.changes import AttemptChange, Changes, TaskChange
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.tasks import item_failures
from potluck.store.tasks.function_results import NewResult


class Ending(Struct, frozen=True):
    """What is known about the end: by report, or concluded by the server."""

    reason: EndReason
    exit_code: int | None = None
    detail: str = ""
    usage: Usage | None = None
    report_hash: bytes | None = None
    value: Value | None = None  # that a function gave


class _Settled(Struct, frozen=True):
    """An attempt that ends, and all that comes of it."""

    course: Course
    end: AttemptChange
    move: TaskChange
    given_up: ItemFailure | None
    results: tuple[NewResult, ...]


async def end_attempt(parts: Parts, connection: Connection, course: Course, ending: Ending) -> None:
    await end_attempts(parts, connection, [(course, ending)])


async def end_attempts(
    parts: Parts, connection: Connection, endings: Sequence[tuple[Course, Ending]]
) -> None:
    """Ends live attempts of different tasks, locked in this transaction; pays, and tells."""
    settled = [_settle(parts, course, ending) for course, ending in endings]
    await _apply(
        parts,
        connection,
        [(each.course, each.end) for each in settled],
        [(each.course, each.move) for each in settled],
        [piece for each in settled for piece in each.results],
    )
    for each in settled:
        if each.given_up is not None:
            attempt = each.course.attempt
            await item_failures.fail(connection, attempt.task_id, attempt.id, [each.given_up])
    for each in settled:
        await function_results.hold_blobs(connection, each.course.attempt, each.results)


def _settle(parts: Parts, course: Course, ending: Ending) -> _Settled:
    attempt, end = course.attempt, _end(course, ending)
    after = _after(parts, attempt, ending)
    move = _change(course, [end], ending, after)
    given = function_results.given(attempt, ending.reason, ending.value, after.given_up, move.state)
    return _Settled(course, end, move, after.given_up, (*course.results, *given))


async def cancel_attempts(
    parts: Parts, connection: Connection, live: Sequence[EndingAttempt]
) -> None:
    """Ends all live attempts of one task, which are locked in this transaction, and the task."""
    ending = Ending(EndReason.CANCELLED)
    rest = tuple(part for each in live if each.array for part in each.array.remaining)
    after = RangeEnd(retry_policy.Next(TaskState.CANCELLED, EndReason.CANCELLED), rest)
    ends = [(course, _end(course, ending)) for course in map(Course, live)]
    first = Course(live[0])
    change = _change(first, [end for _, end in ends], ending, after)
    await _apply(parts, connection, ends, [(first, change)], [])


async def _apply(
    parts: Parts,
    connection: Connection,
    ends: Sequence[tuple[Course, AttemptChange]],
    moves: Sequence[tuple[Course, TaskChange]],
    results: Sequence[NewResult],
) -> None:
    """However many there are: rows are locked in the usual order."""
    told = [event for course, _ in ends for event in course.events]
    told += [_attempt_event(course.attempt, end) for course, end in ends]
    told += [event for course, move in moves for event in _task_events(course.attempt, move)]
    done, moved = [end for _, end in ends], [move for _, move in moves]
    await changes.write(connection, parts.vault, Changes(done, moved, results, told))
    movements = [_movement(course.attempt, end) for course, end in ends]
    await ledger.append_many(connection, movements)


def _end(course: Course, ending: Ending) -> AttemptChange:
    attempt, state = course.attempt, ATTEMPT_STATE_AFTER[ending.reason]
    assert attempt_may_become(attempt.state, state)
    return AttemptChange(
        attempt_id=attempt.id,
        state=state,
        reason=ending.reason,
        charge_micro=_charge(attempt, state, ending.usage),
        exit_code=ending.exit_code,
        detail=ending.detail,
        usage=ending.usage,
        report_hash=ending.report_hash,
        is_finished=state in (AttemptState.SUCCEEDED, AttemptState.FAILED),
        is_nodes_loss=state is AttemptState.LOST
        and is_nodes_fault(
            ending.reason,
            kind=attempt.kind,
            is_reclaimable=attempt.is_reclaimable,
            is_available=attempt.is_available,
        ),
        has_begun=course.has_begun,
        accepted=course.accepted,
    )


def _charge(attempt: EndingAttempt, state: AttemptState, usage: Usage | None) -> int:
    """Work that was lost is not paid: the consumer got nothing for it but its accepted items."""
    billable = attempt.billable
    reported = usage.run_seconds if usage else None
    if state is AttemptState.LOST:
        reported = billable.items_seconds
    work = msgspec.structs.replace(billable, reported_run_seconds=reported)
    return charge_micro(work, attempt.now)


def _after(parts: Parts, attempt: EndingAttempt, ending: Ending) -> RangeEnd:
    """What becomes of the task; a single one is a range without items."""
    before, loss = attempt.history, int(_is_counted_loss(ending.reason))
    is_failure = ATTEMPT_STATE_AFTER[ending.reason] is AttemptState.FAILED
    history = retry_policy.History(
        failures=before.failures + is_failure,
        losses=before.losses + loss,
        nodes_lost=before.nodes_lost + loss,
        max_attempts=before.max_attempts,
        declines=before.declines + (ending.reason is EndReason.DECLINED),
    )
    wait = _wait(parts)
    if attempt.array is None:
        return RangeEnd(retry_policy.after(ending.reason, history, attempt.now, wait), ())
    return after_range(ending.reason, history, attempt.array, attempt.now, wait)


def _is_counted_loss(reason: EndReason) -> bool:
    return ATTEMPT_STATE_AFTER[reason] is AttemptState.LOST and reason not in retry_policy.UNCOUNTED


def _wait(parts: Parts) -> retry_policy.Wait:
    settings = parts.settings
    back_off = BackOff(settings.back_off_first_seconds, settings.back_off_longest_seconds)
    return retry_policy.Wait(back_off, random.random())


def _change(
    course: Course, ends: Sequence[AttemptChange], ending: Ending, after: RangeEnd
) -> TaskChange:
    attempt = course.attempt
    state = after.next.state or attempt.task_state
    assert state is attempt.task_state or task_may_become(attempt.task_state, state)
    return TaskChange(
        task_id=attempt.task_id,
        state=state,
        reason=after.next.reason,
        not_before=after.next.not_before,
        exit_code=ending.exit_code if attempt.array is None else None,
        detail=_detail(attempt.array, ending, after),
        failures=int(ATTEMPT_STATE_AFTER[ending.reason] is AttemptState.FAILED),
        losses=int(_is_counted_loss(ending.reason)),
        charge_micro=sum(end.charge_micro for end in ends),
        back=after.back,
        items_failed=int(after.given_up is not None),
        has_begun=course.has_task_begun,
        accepted=course.accepted,
    )


def _detail(array: ArrayPart | None, ending: Ending, after: RangeEnd) -> str:
    """Of an array that goes on, how one range ended is of no interest."""
    if array is not None and after.next.reason is EndReason.ITEMS_FAILED:
        failed = array.items_failed + (after.given_up is not None)
        return f"{failed} of {array.items} items failed."
    return ending.detail if after.next.reason is not None else ""


def _movement(attempt: EndingAttempt, end: AttemptChange) -> Movement:
    entries = settle_entries(attempt.billable, end.charge_micro)
    return Movement(entries, attempt.id, attempt.adoption)


def _attempt_event(attempt: EndingAttempt, end: AttemptChange) -> Event:
    return Event(
        attempt.billable.consumer_id,
        EventKind.ATTEMPT_ENDED,
        attempt.task_id,
        attempt.node_id,
        {"state": end.state, "reason": end.reason, **about(attempt)},
    )


def _task_events(attempt: EndingAttempt, change: TaskChange) -> list[Event]:
    if change.state is attempt.task_state:
        return []
    again = change.state is TaskState.QUEUED
    kind = EventKind.TASK_QUEUED if again else EventKind.TASK_FINISHED
    data = {"state": change.state, "reason": change.reason, **about(attempt)}
    return [Event(attempt.billable.consumer_id, kind, attempt.task_id, data=data)]
