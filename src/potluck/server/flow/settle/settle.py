"""Settle: writes decisions about attempts; one that ends is paid for in the same transaction.

Report, cancel, expiry and shutdown all go through `write_changes`.
"""

import random
from collections.abc import Sequence

import structlog

from potluck.decide.attempt_change import AttemptChange
from potluck.decide.charges import Billable, Settlement, settle_entries, shortfall_entries
from potluck.decide.retry_policy import Wait
from potluck.local import tracing
from potluck.model.backoff import BackOff
from potluck.model.event import EventKind
from potluck.model.ids import AttemptId, NodeId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
from potluck.server.flow.report import function_results
from potluck.server.flow.traces import record_traces
from potluck.server.services import Services
from potluck.store.attempts import changes, slices
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.tasks import item_failures

log = structlog.get_logger()


def retry_wait(services: Services) -> Wait:
    """The back-off before a task's next try, with fresh jitter."""
    settings = services.settings
    back_off = BackOff(settings.back_off_first_seconds, settings.back_off_longest_seconds)
    return Wait(back_off, random.random())


async def write_changes(
    services: Services, connection: Connection, all_changes: Sequence[AttemptChange]
) -> None:
    """For attempts locked in this transaction; the first one of a task decides about the task."""
    began_ns = tracing.now_ns()
    news = [change for change in all_changes if change.is_news]
    slice_seconds = services.settings.settle_seconds
    await changes.write(connection, services.vault, news, _events(news), slice_seconds)
    ended = [change for change in news if change.reason is not None]
    await changes.pass_on(connection, ended, slice_seconds)
    await ledger.append_many(connection, [_movement(change) for change in ended])
    await _charge_shortfalls(connection, ended)
    for change in ended:
        if change.task is not None and change.task.given_up is not None:
            attempt = change.attempt
            await item_failures.record_failures(
                connection, services.vault, attempt.task_id, attempt.id, [change.task.given_up]
            )
    for change in news:
        await function_results.hold_blobs(connection, change.attempt, change.results)
    for change in ended:
        # Before the commit: a batch that is tried again is logged again.
        log.info(
            "attempt ended",
            task_id=change.attempt.task_id,
            attempt_id=change.attempt.id,
            node_id=change.attempt.node_id,
            state=change.state,
            reason=change.reason,
        )
    if tracing.is_tracing():
        tasks = [change.attempt.task_id for change in ended]
        await record_traces(connection, "settle", tasks, began_ns)


def _movement(change: AttemptChange) -> Movement:
    attempt = change.attempt
    entries = settle_entries(attempt.billable, change.settlement)
    return Movement(entries, attempt.id, attempt.adoption, _last_slice(attempt.billable))


async def _charge_shortfalls(connection: Connection, ended: Sequence[AttemptChange]) -> None:
    """As far as the consumers' credit goes; after the other writes: balances are locked last."""
    short = [change for change in ended if change.settlement.shortfall_micro > 0]
    if not short:
        return
    consumers = sorted({change.attempt.billable.consumer_id for change in short})
    available = await slices.lock_balances(connection, consumers)
    extra: dict[AttemptId, Settlement] = {}
    movements: list[Movement] = []
    for change in short:
        work = change.attempt.billable
        amount = min(change.settlement.shortfall_micro, available[work.consumer_id])
        if amount > 0:
            available[work.consumer_id] -= amount
            extra[change.attempt.id] = Settlement(amount)
            number = _last_slice(work) + 1
            entries = shortfall_entries(work, amount)
            movements.append(Movement(entries, change.attempt.id, change.attempt.adoption, number))
    await slices.resolve(connection, extra)
    await ledger.append_many(connection, movements)


def _last_slice(work: Billable) -> int:
    return work.slices + 1 if work.slices else 0


def _events(news: Sequence[AttemptChange]) -> list[Event]:
    """Progress of attempts first, then their ends, then the tasks."""
    return [
        *(event for change in news for event in _progress_events(change)),
        *(event for change in news for event in _end_events(change)),
        *(event for change in news for event in _task_events(change)),
    ]


def _progress_events(change: AttemptChange) -> list[Event]:
    node_id, events = change.attempt.node_id, list[Event]()
    if change.has_prepared:
        events += [_event(change, EventKind.ATTEMPT_PREPARING, AttemptState.PREPARING, node_id)]
    if change.has_begun:
        events += [_event(change, EventKind.ATTEMPT_RUNNING, AttemptState.RUNNING, node_id)]
    if change.has_task_begun:
        events += [_event(change, EventKind.TASK_RUNNING, TaskState.RUNNING)]
    return events


def _end_events(change: AttemptChange) -> list[Event]:
    if change.reason is None:
        return []
    node_id, kind = change.attempt.node_id, EventKind.ATTEMPT_ENDED
    return [_event(change, kind, change.state, node_id, reason=change.reason)]


def _task_events(change: AttemptChange) -> list[Event]:
    task = change.task
    if task is None or task.state is change.attempt.task_state:
        return []
    is_retry = task.state is TaskState.QUEUED
    kind = EventKind.TASK_QUEUED if is_retry else EventKind.TASK_FINISHED
    return [_event(change, kind, task.state, reason=task.reason)]


def _event(
    change: AttemptChange,
    kind: EventKind,
    state: AttemptState | TaskState,
    node_id: NodeId | None = None,
    **why: EndReason | None,
) -> Event:
    attempt = change.attempt
    data = {"state": state, **why, "attempt_id": attempt.id, "node_id": attempt.node_id}
    return Event(attempt.billable.consumer_id, kind, attempt.task_id, node_id, data)
