"""Expire: what ran out of time. Leases of silent nodes, assignments nobody fetched, deadlines."""

from collections.abc import Callable
from datetime import timedelta

import structlog

from potluck.decide import lease_grace
from potluck.decide.lease_grace import Grace, Silence, Times
from potluck.model.event import EventKind
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.notify.notify import ended_in_queue, tell
from potluck.server.flow.settle.end_many import end_many
from potluck.server.flow.settle.settle import Ending
from potluck.server.services import Parts
from potluck.store.attempts import leases
from potluck.store.attempts.attempts import EndingAttempt
from potluck.store.events.outbox import Event
from potluck.store.nodes import bindings, nodes
from potluck.store.scheduler import leader
from potluck.store.scheduler.leader import Leadership
from potluck.store.tasks import tasks

log = structlog.get_logger()


async def expire_once(parts: Parts, leadership: Leadership) -> int:
    """Answers how many things had run out.

    Only within a term that still runs. What many nodes do at once is forgiven first. A silent node
    is known as such before its leases end: else it could be given the very work that it still has.
    """
    await _forgive(parts, leadership, lease_grace.for_mass_loss)
    silent = await _find_silent_nodes(parts, leadership)
    ended = await _expire_leases(parts, leadership) + await _expire_deadlines(parts, leadership)
    if ended:
        await parts.live.wake(topics.SCHEDULE)
    if ended or silent:
        await parts.live.wake(topics.OUTBOX)
    return ended + silent


async def begin_term(parts: Parts, leadership: Leadership) -> None:
    """Time stood still while nobody led. If nobody could beat either, that is forgiven first."""
    async with parts.database.transaction() as connection:
        lasting = timedelta(seconds=parts.settings.challenge_seconds)
        await bindings.prolong_contests(connection, lasting)
    await _forgive(parts, leadership, lease_grace.for_gap)


async def _forgive(
    parts: Parts,
    leadership: Leadership,
    decide: Callable[[Silence, Times], Grace | None],
) -> None:
    times = _times(parts)
    async with parts.database.transaction() as connection:
        silence = await leases.silence(connection, leadership.led_until, times)
        forgiven = decide(silence, times)
        if forgiven is not None and await leases.forgive(connection, leadership, forgiven):
            seconds = forgiven.lasting / timedelta(seconds=1)
            log.warning("forgave a silence", seconds=seconds, decided=decide.__name__)


def _times(parts: Parts) -> Times:
    settings = parts.settings
    return Times(
        heartbeat=timedelta(seconds=settings.heartbeat_seconds),
        lease=timedelta(seconds=settings.lease_seconds),
        silent_after=timedelta(seconds=settings.silent_after_seconds),
    )


async def _expire_leases(parts: Parts, leadership: Leadership) -> int:
    async with parts.database.transaction() as connection:
        expired = await leases.expired(connection)
    ended = await end_many(parts, expired, _expiry, leadership)
    for node_id in sorted({attempt.node_id for attempt in ended}):
        await parts.live.wake(topics.node(node_id))
    return len(ended)


def _expiry(attempt: EndingAttempt) -> Ending | None:
    """Unless it was renewed meanwhile."""
    if not attempt.is_expired:
        return None
    return Ending(EndReason.LEASE_EXPIRED if attempt.was_fetched else EndReason.WITHDRAWN)


async def _expire_deadlines(parts: Parts, leadership: Leadership) -> int:
    how = TaskState.EXPIRED, EndReason.DEADLINE
    async with parts.database.transaction() as connection:
        overdue = await tasks.past_deadline(connection)
        if not overdue or not await leader.holds(connection, leadership):
            return 0
        ended = await tasks.end_queued(connection, dict.fromkeys(overdue, ""), *how)
        await tell(connection, *(ended_in_queue(owner, task_id, *how) for task_id, owner in ended))
    return len(ended)


async def _find_silent_nodes(parts: Parts, leadership: Leadership) -> int:
    async with parts.database.transaction() as connection:
        if not await leader.holds(connection, leadership):
            return 0
        silent = await nodes.fall_silent(connection, parts.settings.silent_after_seconds)
        for node in silent:
            await tell(connection, Event(node.account_id, EventKind.NODE_SILENT, node_id=node.id))
    return len(silent)
