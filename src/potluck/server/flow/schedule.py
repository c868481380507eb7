"""Schedule: one round of the leader. Load the picture, plan, and apply what still holds."""

import time

import structlog
from msgspec import Struct

from potluck.decide.plan import plan
from potluck.decide.settle import hold_entries
from potluck.decide.snapshot import Assignment, Snapshot, WaitingTask
from potluck.model.error import PotluckError
from potluck.model.event import EventKind
from potluck.model.ids import TaskId
from potluck.model.task import WaitingReason
from potluck.server import topics
from potluck.server.flow.notify import tell
from potluck.server.parts import Parts
from potluck.store import ledger, schedule
from potluck.store.assign import Planned, assign
from potluck.store.events import Event
from potluck.store.leader import Leadership
from potluck.store.mint import new_attempt_id
from potluck.wire import codec

log = structlog.get_logger()

# Long enough to outlive a quiet spell between rounds, short enough not to lie for long.
_REASON_SECONDS = 120.0


class Round(Struct, frozen=True):
    """What a round did, and when the next one is due at the latest."""

    assigned: tuple[Assignment, ...]
    waiting: dict[TaskId, WaitingReason]
    next_ready_seconds: float | None


async def schedule_once(parts: Parts, leadership: Leadership) -> Round:
    """Goes through the queue page by page, for as long as there is anything left to give."""
    assigned: list[Assignment] = []
    waiting: dict[TaskId, WaitingReason] = {}
    behind: WaitingTask | None = None
    while True:
        page = await _load(parts, behind)
        decided = plan(page)
        assigned += [each for each in decided.assignments if await _apply(parts, leadership, each)]
        waiting |= decided.waiting
        if len(page.tasks) < parts.settings.most_tasks_per_page or not _anything_free(page):
            break
        behind = page.tasks[-1]
    await _tell(parts, assigned)
    async with parts.database.transaction() as connection:
        next_ready = await schedule.next_ready_seconds(connection)
    return Round(tuple(assigned), waiting, next_ready)


async def _load(parts: Parts, behind: WaitingTask | None) -> Snapshot:
    async with parts.database.transaction() as connection:
        return await schedule.snapshot(connection, behind, parts.settings.most_tasks_per_page)


def _anything_free(page: Snapshot) -> bool:
    return any(node.free_cores > 0 for node in page.nodes)


async def _apply(parts: Parts, leadership: Leadership, assignment: Assignment) -> bool:
    """In a transaction of its own: one that fails, for whatever reason, fails alone."""
    try:
        return await _assign(parts, leadership, assignment)
    except PotluckError:
        raise
    except Exception:
        log.exception("assignment failed", task_id=assignment.task_id, node_id=assignment.node_id)
        return False


async def _assign(parts: Parts, leadership: Leadership, assignment: Assignment) -> bool:
    planned = [Planned(new_attempt_id(), assignment)]
    async with parts.database.transaction() as connection:
        held = await assign(connection, planned, leadership, parts.settings.fetch_seconds)
        for each in held:
            entries = hold_entries(each.consumer_id, assignment.hold_micro)
            await ledger.append(connection, entries, each.attempt_id)
            event = Event(each.consumer_id, EventKind.TASK_ASSIGNED, assignment.task_id)
            await tell(connection, event)
    return bool(held)


async def _tell(parts: Parts, assigned: list[Assignment]) -> None:
    for node_id in {each.node_id for each in assigned}:
        await parts.live.wake(topics.node(node_id))
    if assigned:
        await parts.live.wake(topics.OUTBOX)


class Reasons:
    """Why tasks wait, kept for whoever asks; followers are woken when a reason is a new one."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._published: dict[TaskId, tuple[bytes, float]] = {}

    async def publish(self, waiting: dict[TaskId, WaitingReason]) -> None:
        now = time.monotonic()
        self._published = {
            task_id: await self._publish(task_id, codec.encode_json(reason), now)
            for task_id, reason in waiting.items()
        }

    async def _publish(self, task_id: TaskId, reason: bytes, now: float) -> tuple[bytes, float]:
        """Again before it expires, and not at every round."""
        before, at = self._published.get(task_id, (b"", now))
        if reason == before and now - at < _REASON_SECONDS / 2:
            return before, at
        await self._parts.live.put(topics.waiting(task_id), reason, _REASON_SECONDS)
        if reason != before:
            await self._parts.live.wake(topics.task(task_id))
        return reason, now
