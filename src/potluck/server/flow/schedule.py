"""Schedule: one round of the leader. Load the picture, plan, and apply what still holds."""

from potluck.decide.plan import Plan, plan
from potluck.decide.settle import hold_entries
from potluck.decide.snapshot import Assignment
from potluck.model.event import EventKind
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import Limits, WaitingReason
from potluck.server import topics
from potluck.server.flow.notify import tell
from potluck.server.parts import Parts
from potluck.store import attempts, ledger, schedule
from potluck.store.database import Connection
from potluck.store.events import Event
from potluck.store.leader import Leadership
from potluck.store.mint import new_attempt_id
from potluck.wire import codec

# Long enough to outlive a quiet spell between rounds, short enough not to lie for long.
_REASON_SECONDS = 120.0


async def schedule_once(parts: Parts, leadership: Leadership) -> Plan:
    async with parts.database.transaction() as connection:
        current = await schedule.load_round(connection, parts.settings.most_tasks_per_round)
    decided = plan(current.snapshot)
    woken = await _apply(parts, leadership, decided, current.limits)
    for node_id in woken:
        await parts.live.wake(topics.node(node_id))
    if woken:
        await parts.live.wake(topics.OUTBOX)
    await _publish_reasons(parts, decided.waiting)
    return decided


async def _apply(
    parts: Parts, leadership: Leadership, decided: Plan, limits: dict[TaskId, Limits]
) -> set[NodeId]:
    """All of a round in one transaction; each assignment stands or falls by its own guard."""
    if not decided.assignments:
        return set()
    woken = set()
    async with parts.database.transaction() as connection:
        # In key order, so that two writers of the same rows can not deadlock.
        for assignment in sorted(decided.assignments, key=lambda a: a.task_id):
            limit = limits[assignment.task_id]
            if await _assign(parts, connection, assignment, limit, leadership):
                woken.add(assignment.node_id)
    return woken


async def _assign(
    parts: Parts,
    connection: Connection,
    assignment: Assignment,
    limits: Limits,
    leadership: Leadership,
) -> bool:
    assigned = await attempts.assign(
        connection, new_attempt_id(), assignment, limits, leadership, parts.settings.fetch_seconds
    )
    if assigned is None:
        return False
    entries = hold_entries(assigned.consumer_id, assignment.hold_micro)
    await ledger.append(connection, entries, assigned.attempt_id)
    await tell(connection, Event(assigned.consumer_id, EventKind.TASK_ASSIGNED, assigned.task_id))
    return True


async def _publish_reasons(parts: Parts, waiting: dict[TaskId, WaitingReason]) -> None:
    """Followers are woken only when the reason is a new one."""
    ids = list(waiting)
    known = await parts.live.get_many([topics.waiting(task_id) for task_id in ids])
    for task_id, before in zip(ids, known, strict=True):
        reason = codec.encode_json(waiting[task_id])
        await parts.live.put(topics.waiting(task_id), reason, _REASON_SECONDS)
        if reason != before:
            await parts.live.wake(topics.task(task_id))
