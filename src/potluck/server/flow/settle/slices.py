"""Slices: attempts that run long are charged while they run.

So a provider is paid although an end never comes, and a consumer whose credit runs out loses
nothing: the node is asked to stop the task with a checkpoint, and the task waits for credit.
Rewards of lost attempts, which are held back, are resolved once the attempts cannot be re-adopted.
"""

from collections.abc import Sequence
from functools import partial

from potluck.decide.charges import (
    Settlement,
    charge_slice,
    held_back_entries,
    judge,
    secured_micro,
    settle,
    slice_entries,
)
from potluck.decide.locked_attempt import LockedAttempt
from potluck.model.error import Unavailable
from potluck.model.event import EventKind
from potluck.model.ids import AttemptId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason
from potluck.server import topics
from potluck.server.flow.batch import try_batch_then_each
from potluck.server.flow.notify.notify import record_events, wake_leader
from potluck.server.flow.settle.end_many import end_many
from potluck.server.services import Services
from potluck.store.attempts import attempts, slices
from potluck.store.attempts.slices import ChargedSlice
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership

# All rows of a batch stay locked until it commits.
_BATCH = 100
# In one run; the rest follows with the next.
_MOST = 1_000


async def settle_slices(services: Services, leadership: Leadership) -> int:
    """Charges the slices that are due; returns how many there were."""
    async with services.database.statement() as connection:
        due = await slices.list_due(connection, _MOST)
    charge = partial(_charge, services, leadership)
    for start in range(0, len(due), _BATCH):
        batch = due[start : start + _BATCH]
        charged = await try_batch_then_each(batch, charge, but=Unavailable)
        overdrawn = [attempt_id for attempt_id, may_run in charged.items() if not may_run]
        await end_many(services, overdrawn, _overdraft, leadership)
    return len(due)


async def resolve_lost(services: Services, leadership: Leadership) -> int:
    """Pays or returns what was held back for attempts that are lost for good."""
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return 0
        unresolved = await slices.list_unresolved(connection, _BATCH)
        lost = await attempts.lock_many_for_end(connection, unresolved) if unresolved else []
        settlements = {
            attempt.id: settle(attempt.billable, secured_micro(attempt.billable, attempt.now))
            for attempt in lost
            if attempt.state is AttemptState.LOST
        }
        await _resolve(connection, lost, settlements)
    return len(settlements)


async def judge_failures(services: Services, leadership: Leadership) -> int:
    """Pays or forfeits what was held back for attempts that failed, once there is something to
    compare them with, or nothing for long. Returns how many it judged.
    """
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return 0
        longest_seconds = services.settings.held_back_seconds
        unjudged = await slices.list_unjudged(connection, longest_seconds, _BATCH)
        failed = await attempts.lock_many_for_end(connection, list(unjudged)) if unjudged else []
        records = await attempts.failure_records(connection, list(unjudged)) if unjudged else {}
        settlements: dict[AttemptId, Settlement] = {}
        for attempt in failed:
            failure = unjudged[attempt.id]
            believed = records[attempt.id].believed_seconds(failure.seconds)
            if believed is None and failure.has_waited:
                believed = failure.seconds
            # Another leader may have judged it.
            if believed is not None and attempt.billable.held_back_micro > 0:
                settlements[attempt.id] = judge(attempt.billable, believed)
        await _resolve(connection, failed, settlements)
    return len(settlements)


async def _resolve(
    connection: Connection,
    locked: Sequence[LockedAttempt],
    settlements: dict[AttemptId, Settlement],
) -> None:
    await slices.resolve(connection, settlements)
    await ledger.append_many(
        connection,
        [
            Movement(
                held_back_entries(attempt.billable, settlements[attempt.id]),
                attempt.id,
                attempt.adoption,
                # Behind those of its end: one, and one for what its hold did not cover.
                attempt.billable.slices + 3,
            )
            for attempt in locked
            if attempt.id in settlements
        ],
    )


async def _charge(
    services: Services, leadership: Leadership, batch: Sequence[AttemptId]
) -> dict[AttemptId, bool]:
    """False for those that were asked to stop, and whose time for it is over."""
    answers = dict.fromkeys(batch, True)
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return answers
        locked = await attempts.lock_many_for_end(connection, batch)
        running = [attempt for attempt in locked if attempt.state is AttemptState.RUNNING]
        going_on = [attempt for attempt in running if not attempt.is_unfunded]
        consumers = sorted({attempt.billable.consumer_id for attempt in going_on})
        available = await slices.lock_balances(connection, consumers)
        charged: list[ChargedSlice] = []
        for attempt in going_on:
            work, times = attempt.billable, services.settings.settle_times
            due = charge_slice(work, attempt.taken_at, available[work.consumer_id], times)
            available[work.consumer_id] -= due.top_up_micro
            charged.append(ChargedSlice(attempt, due))
        if charged:
            await slices.write(connection, charged)
        await ledger.append_many(connection, [_movement(charge) for charge in charged])
        unfunded = [charge.attempt for charge in charged if not charge.due.is_funded]
        await record_events(connection, *map(_unfunded_event, unfunded))
    if unfunded:
        await wake_leader(services)
    for attempt in unfunded:
        await services.live.wake(topics.node(attempt.node_id))
    return {**answers, **{attempt.id: False for attempt in running if attempt.is_unfunded}}


def _movement(charged: ChargedSlice) -> Movement:
    attempt = charged.attempt
    entries = slice_entries(attempt.billable, charged.due)
    return Movement(entries, attempt.id, attempt.adoption, attempt.billable.slices + 1)


def _overdraft(attempt: LockedAttempt) -> EndReason | None:
    return EndReason.CREDIT if attempt.is_unfunded else None


def _unfunded_event(attempt: LockedAttempt) -> Event:
    data = {"attempt_id": attempt.id, "node_id": attempt.node_id, "reason": EndReason.CREDIT}
    return Event(
        attempt.billable.consumer_id,
        EventKind.ATTEMPT_UNFUNDED,
        attempt.task_id,
        attempt.node_id,
        data,
    )
