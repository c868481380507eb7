"""Settle: the transaction that ends an attempt, whatever ended it, pays for it too.

Report, cancel, expiry and shutdown all come through `end_attempt`; there is no other way out.
"""

import random

import msgspec
from msgspec import Struct

from potluck.decide import retry
from potluck.decide.lifecycle import ATTEMPT_STATE_AFTER, attempt_may_become, task_may_become
from potluck.decide.settle import charge_micro, settle_entries
from potluck.model.back_off import BackOff
from potluck.model.event import EventKind
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.model.usage import Usage
from potluck.server.flow.notify import tell
from potluck.server.parts import Parts
from potluck.store import attempts, ledger
from potluck.store.attempts import End, EndingAttempt
from potluck.store.database import Connection
from potluck.store.events import Event


class Ending(Struct, frozen=True):
    """What is known about the end: by report, or concluded by the server."""

    reason: EndReason
    exit_code: int | None = None
    detail: str = ""
    usage: Usage | None = None
    report_hash: bytes | None = None


async def end_attempt(
    parts: Parts, connection: Connection, attempt: EndingAttempt, ending: Ending
) -> None:
    """Ends a live attempt that is locked in this transaction, settles it, and tells."""
    end = _decide(parts, attempt, ending)
    assert attempt_may_become(attempt.state, end.state)
    assert task_may_become(attempt.task_state, end.next.state)
    await attempts.finish(connection, attempt, end)
    entries = settle_entries(attempt.billable, end.charge_micro)
    await ledger.append(connection, entries, attempt.id)
    await tell(connection, _event(attempt, end))


def _decide(parts: Parts, attempt: EndingAttempt, ending: Ending) -> End:
    state = ATTEMPT_STATE_AFTER[ending.reason]
    is_counted_loss = state is AttemptState.LOST and ending.reason not in retry.UNCOUNTED
    history = retry.History(
        failures=attempt.failures + (state is AttemptState.FAILED),
        losses=attempt.losses + is_counted_loss,
        nodes_lost=attempt.other_nodes_lost + is_counted_loss,
        max_attempts=attempt.max_attempts,
    )
    return End(
        state=state,
        reason=ending.reason,
        next=retry.after(ending.reason, history, attempt.now, _wait(parts)),
        is_counted_loss=is_counted_loss,
        charge_micro=_charge(attempt, state, ending.usage),
        exit_code=ending.exit_code,
        detail=ending.detail,
        usage=ending.usage,
        report_hash=ending.report_hash,
    )


def _charge(attempt: EndingAttempt, state: AttemptState, usage: Usage | None) -> int:
    """Work that was lost is not paid: the consumer got nothing for it."""
    if state is AttemptState.LOST:
        return 0
    reported = usage.run_seconds if usage else None
    billable = msgspec.structs.replace(attempt.billable, reported_run_seconds=reported)
    return charge_micro(billable, attempt.now)


def _wait(parts: Parts) -> retry.Wait:
    settings = parts.settings
    back_off = BackOff(settings.back_off_first_seconds, settings.back_off_longest_seconds)
    return retry.Wait(back_off, random.random())


def _event(attempt: EndingAttempt, end: End) -> Event:
    again = end.next.state is TaskState.QUEUED
    kind = EventKind.TASK_QUEUED if again else EventKind.TASK_FINISHED
    data = {"state": end.next.state, "reason": end.next.reason, "attempt_id": attempt.id}
    return Event(attempt.billable.consumer_id, kind, attempt.task_id, data=data)
