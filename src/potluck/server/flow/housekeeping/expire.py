"""Expire: leases of silent nodes, assignments that were not fetched, and deadlines."""

from collections.abc import Callable
from datetime import timedelta

import structlog

from potluck.decide import lease_grace
from potluck.decide.lease_grace import Grace, HeartbeatGaps, HeartbeatTimes
from potluck.decide.locked_attempt import LockedAttempt
from potluck.model.event import EventKind
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.notify.notify import queue_end_event, record_events
from potluck.server.flow.settle.end_many import end_many
from potluck.server.services import Services
from potluck.store.alerts import observations
from potluck.store.attempts import leases
from potluck.store.events.outbox import Event
from potluck.store.nodes import bindings, nodes
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership
from potluck.store.tasks import tasks

log = structlog.get_logger()


async def expire_once(services: Services, leadership: Leadership) -> int:
    """Returns the number of things that expired. Only within a running term.

    Mass silence is forgiven first. A node is marked silent before its leases end: otherwise it
    could be assigned the very work it still runs.
    """
    await _forgive(services, leadership, lease_grace.for_mass_loss)
    silent = await _find_silent_nodes(services, leadership)
    ended = await _expire_leases(services, leadership) + await _expire_deadlines(
        services, leadership
    )
    if ended:
        await services.live.wake(topics.SCHEDULE)
    if ended or silent:
        await services.live.wake(topics.OUTBOX)
    return ended + silent


async def begin_term(services: Services, leadership: Leadership) -> None:
    """Forgives the time without a leader, if nodes could not send heartbeats either."""
    async with services.database.transaction() as connection:
        duration = timedelta(seconds=services.settings.challenge_seconds)
        await bindings.extend_contests(connection, duration)
        await observations.record_term(connection, leadership)
    await _forgive(services, leadership, lease_grace.for_gap)


async def _forgive(
    services: Services,
    leadership: Leadership,
    decide: Callable[[HeartbeatGaps, HeartbeatTimes], Grace | None],
) -> None:
    times = _times(services)
    async with services.database.transaction() as connection:
        gaps = await leases.read_heartbeat_gaps(connection, leadership.led_until, times)
        grace = decide(gaps, times)
        if grace is not None and await leases.grant_grace(connection, leadership, grace):
            seconds = grace.lasting / timedelta(seconds=1)
            log.warning("extended leases after a silence", seconds=seconds, decided=decide.__name__)


def _times(services: Services) -> HeartbeatTimes:
    settings = services.settings
    return HeartbeatTimes(
        heartbeat=timedelta(seconds=settings.heartbeat_seconds),
        lease=timedelta(seconds=settings.lease_seconds),
        silent_after=timedelta(seconds=settings.silent_after_seconds),
    )


async def _expire_leases(services: Services, leadership: Leadership) -> int:
    async with services.database.transaction() as connection:
        expired = await leases.list_expired(connection)
    ended = await end_many(services, expired, _expiry, leadership)
    for node_id in sorted({attempt.node_id for attempt in ended}):
        await services.live.wake(topics.node(node_id))
    return len(ended)


def _expiry(attempt: LockedAttempt) -> EndReason | None:
    """None if it was renewed meanwhile."""
    if not attempt.is_expired:
        return None
    return EndReason.LEASE_EXPIRED if attempt.was_fetched else EndReason.WITHDRAWN


async def _expire_deadlines(services: Services, leadership: Leadership) -> int:
    end = TaskState.EXPIRED, EndReason.DEADLINE
    async with services.database.transaction() as connection:
        overdue = await tasks.list_past_deadline(connection)
        if not overdue or not await leader.is_current(connection, leadership):
            return 0
        ended = await tasks.end_queued(connection, dict.fromkeys(overdue, ""), *end)
        await record_events(
            connection, *(queue_end_event(owner, task_id, *end) for task_id, owner in ended)
        )
    return len(ended)


async def _find_silent_nodes(services: Services, leadership: Leadership) -> int:
    async with services.database.transaction() as connection:
        if not await leader.is_current(connection, leadership):
            return 0
        silent = await nodes.mark_silent(connection, services.settings.silent_after_seconds)
        for node in silent:
            await record_events(
                connection, Event(node.account_id, EventKind.NODE_SILENT, node_id=node.id)
            )
    return len(silent)
