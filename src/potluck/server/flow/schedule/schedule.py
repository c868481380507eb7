"""Schedule: the leader catches up with what has changed, plans, and applies what still holds.

One slice at a time: between two of them requests have their turn, and what has changed meanwhile is
taken in.
"""

from collections.abc import Sequence

import structlog
from msgspec import Struct

from potluck.decide.explain.reason_updates import Waiting
from potluck.decide.queue.task_groups import LineKey
from potluck.decide.types import Assignment
from potluck.server import topics
from potluck.server.flow.schedule.assign import BATCH, apply_assignments
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.attempts.assign import Assigned
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()


class Round(Struct, frozen=True):
    """What a slice did, and why what is left waits, as far as that is new."""

    assigned: tuple[Assignment, ...]
    waiting: dict[LineKey, Waiting]
    emptied: tuple[LineKey, ...]  # in which nobody waits any more
    is_placed: bool  # False if there may be more to place at once
    is_told: bool  # False if there may be more to tell

    @property
    def is_complete(self) -> bool:
        return self.is_placed and self.is_told


async def schedule_once(services: Services, leadership: Leadership, memory: LeaderMemory) -> Round:
    """Raises TermOver when another instance leads by now."""
    await memory.catch_up()
    plan = memory.known.scheduler.plan(memory.now, services.settings.decisions_per_slice)
    came_true = await _apply(services, leadership, memory, plan.assignments)
    all_came_true = len(came_true) == len(plan.assignments)
    is_placed = plan.is_complete and all_came_true
    return Round(tuple(came_true), plan.waiting, plan.emptied, is_placed, plan.is_told)


async def _apply(
    services: Services,
    leadership: Leadership,
    memory: LeaderMemory,
    assignments: Sequence[Assignment],
) -> list[Assignment]:
    """Whatever did not come true, or nobody knows of, is read again before the next plan."""
    came_true: list[Assignment] = []
    done_with = 0
    try:
        for start in range(0, len(assignments), BATCH):
            batch = assignments[start : start + BATCH]
            assigned = await apply_assignments(services, leadership, batch)
            done_with = start + len(batch)
            came_true += _remember(services, memory, batch, assigned)
            await _wake(services, assigned)
    finally:
        for each in assignments[done_with:]:
            memory.known.doubt(each, memory.now)
    return came_true


def _remember(
    services: Services,
    memory: LeaderMemory,
    batch: Sequence[Assignment],
    assigned: Sequence[Assigned],
) -> list[Assignment]:
    for each in assigned:
        memory.known.came_true(each, memory.now)
    held = {id(each.assignment) for each in assigned}
    refused = [planned for planned in batch if id(planned) not in held]
    for planned in refused:
        memory.known.doubt(planned, memory.now)
    # Once for all ranges of an array: they were refused for one reason.
    for planned in {each.task_id: each for each in refused}.values():
        _refused(services, memory, planned)
    return [each.assignment for each in assigned]


def _refused(services: Services, memory: LeaderMemory, assignment: Assignment) -> None:
    """Once is life: somebody was quicker. Again and again means that memory can not be right."""
    until = memory.now + services.settings.schedule_poll_seconds
    if memory.known.refuse(assignment.task_id, until):
        log.error(
            "a plan was refused again and again",
            task_id=assignment.task_id,
            node_id=assignment.node_id,
        )


async def _wake(services: Services, assigned: Sequence[Assigned]) -> None:
    for node_id in sorted({each.assignment.node_id for each in assigned}):
        await services.live.wake(topics.node(node_id))
    if assigned:
        await services.live.wake(topics.OUTBOX)
