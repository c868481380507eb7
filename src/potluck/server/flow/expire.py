"""Expire: what ran out of time. Leases of silent nodes, assignments nobody fetched, deadlines."""

from datetime import timedelta

from potluck.model.event import EventKind
from potluck.model.ids import AttemptId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.notify import tell
from potluck.server.flow.settle import Ending, end_attempt
from potluck.server.parts import Parts
from potluck.store import attempts, bindings, leader, nodes, tasks
from potluck.store.events import Event
from potluck.store.leader import Leadership


async def expire_once(parts: Parts, leadership: Leadership) -> int:
    """Answers how many things had run out.

    Only within a term that still runs: after an outage the next term forgives the gap first.
    """
    ended = await _expire_leases(parts, leadership) + await _expire_deadlines(parts, leadership)
    silent = await _find_silent_nodes(parts, leadership)
    if ended:
        await parts.live.wake(topics.SCHEDULE)
    if ended or silent:
        await parts.live.wake(topics.OUTBOX)
    return ended + silent


async def forgive_gap(parts: Parts) -> None:
    """After a time without a leader nobody could beat: every lease and contest starts afresh."""
    async with parts.database.transaction() as connection:
        await attempts.extend_all(connection, parts.settings.lease_seconds)
        await bindings.prolong_contests(
            connection, timedelta(seconds=parts.settings.challenge_seconds)
        )
        await nodes.pardon_silence(connection)


async def _expire_leases(parts: Parts, leadership: Leadership) -> int:
    async with parts.database.transaction() as connection:
        expired = await attempts.expired(connection)
    return sum([await _expire(parts, leadership, each) for each in expired])


async def _expire(parts: Parts, leadership: Leadership, attempt_id: AttemptId) -> bool:
    """In a transaction of its own; whoever ended or renewed it meanwhile wins."""
    async with parts.database.transaction() as connection:
        if not await leader.holds(connection, leadership):
            return False
        attempt = await attempts.lock_for_end(connection, attempt_id)
        if attempt is None or not (attempt.state.is_live and attempt.is_expired):
            return False
        reason = EndReason.LEASE_EXPIRED if attempt.was_fetched else EndReason.WITHDRAWN
        await end_attempt(parts, connection, attempt, Ending(reason))
    await parts.live.wake(topics.node(attempt.node_id))
    return True


async def _expire_deadlines(parts: Parts, leadership: Leadership) -> int:
    async with parts.database.transaction() as connection:
        overdue = await tasks.past_deadline(connection)
    return sum([await _expire_deadline(parts, leadership, task_id) for task_id in overdue])


async def _expire_deadline(parts: Parts, leadership: Leadership, task_id: TaskId) -> bool:
    async with parts.database.transaction() as connection:
        if not await leader.holds(connection, leadership):
            return False
        owner_id = await tasks.finish_queued(
            connection, task_id, TaskState.EXPIRED, EndReason.DEADLINE
        )
        if owner_id is None:
            return False
        await tell(connection, Event(owner_id, EventKind.TASK_FINISHED, task_id))
    return True


async def _find_silent_nodes(parts: Parts, leadership: Leadership) -> int:
    async with parts.database.transaction() as connection:
        if not await leader.holds(connection, leadership):
            return 0
        silent = await nodes.fall_silent(connection, parts.settings.silent_after_seconds)
        for node in silent:
            await tell(connection, Event(node.account_id, EventKind.NODE_SILENT, node_id=node.id))
    return len(silent)
