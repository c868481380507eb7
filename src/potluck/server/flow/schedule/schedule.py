"""Schedule: the leader reads changes, plans, and applies the plan, one slice at a time.

Between slices, requests get their turn and new changes are read.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import structlog
from msgspec import Struct

from potluck.decide.explain.reason_updates import WaitingUpdate
from potluck.decide.queue.task_groups import GroupKey
from potluck.decide.types import Assignment
from potluck.local import tracing
from potluck.model.ids import TaskId
from potluck.server import topics
from potluck.server.flow.schedule.assign import BATCH, apply_ahead, apply_assignments
from potluck.server.flow.traces import record_traces
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.attempts.assign import Assigned
from potluck.store.scheduler.leader import Leadership

log = structlog.get_logger()


class Round(Struct, frozen=True):
    """The result of a slice, with the waiting reasons that changed."""

    assigned: tuple[Assignment, ...]
    waiting: dict[GroupKey, WaitingUpdate]
    emptied: tuple[GroupKey, ...]  # groups without waiting tasks
    is_placed: bool  # False if there may be more to place now
    has_all_reasons: bool  # False if there may be more reasons to publish

    @property
    def is_complete(self) -> bool:
        return self.is_placed and self.has_all_reasons


async def schedule_once(services: Services, leadership: Leadership, memory: LeaderMemory) -> Round:
    """Raises TermOver when another instance leads."""
    metrics = services.metrics
    with metrics.round_seconds.time():
        await memory.catch_up()
        most, is_time_up = services.settings.decisions_per_slice, _timer(services)
        plan_slice = partial(memory.known.scheduler.plan, memory.now, most, is_time_up)
        with metrics.plan_seconds.time():
            plan = await memory.planner(plan_slice)
        # Before they are applied: a quick node may have started one before this round ends.
        metrics.work.expect_starts(plan.prompt)
        applied: list[Assignment] = []
        try:
            applied = await _apply(services, leadership, memory, plan.assignments)
        finally:
            metrics.work.drop_expected(plan.prompt - {assignment.task_id for assignment in applied})
    metrics.count_decisions(len(applied), len(plan.assignments) - len(applied))
    if plan.is_complete:
        await _grant_ahead(services, leadership, memory)
    all_applied = len(applied) == len(plan.assignments)
    is_placed = plan.is_complete and all_applied
    return Round(tuple(applied), plan.waiting, plan.emptied, is_placed, plan.has_all_reasons)


def _timer(services: Services) -> Callable[[], bool]:
    """Ends a slice: decisions are applied, and changes read, before the next one."""
    clock = asyncio.get_running_loop()
    until = clock.time() + services.settings.slice_seconds
    return lambda: clock.time() >= until


async def _apply(
    services: Services,
    leadership: Leadership,
    memory: LeaderMemory,
    assignments: Sequence[Assignment],
) -> list[Assignment]:
    """Everything not applied, or with an unknown outcome, is read again before the next plan."""
    applied: list[Assignment] = []
    done = 0
    try:
        for start in range(0, len(assignments), BATCH):
            batch, began_ns = assignments[start : start + BATCH], tracing.now_ns()
            assigned = await apply_assignments(services, leadership, batch)
            done = start + len(batch)
            applied += await memory.planner(partial(_remember, services, memory, batch, assigned))
            await _wake(services, assigned)
            if tracing.is_tracing():
                await _trace(services, assigned, began_ns)
    finally:
        if done < len(assignments):
            await memory.planner(partial(_doubt, memory, assignments[done:]))
    return applied


async def _grant_ahead(services: Services, leadership: Leadership, memory: LeaderMemory) -> None:
    """What was not granted, or with an unknown outcome, is read again before the next plan."""
    for grant in await memory.planner(partial(memory.known.scheduler.ahead.plan, memory.now)):
        granted: set[TaskId] = set()
        try:
            granted = {
                assignment.task_id for assignment in await apply_ahead(services, leadership, grant)
            }
        finally:
            await memory.planner(partial(memory.known.granted_ahead, grant, granted))
        await services.live.wake(topics.node(grant.holder.node_id))
        await services.live.wake(topics.OUTBOX)


def _doubt(memory: LeaderMemory, assignments: Sequence[Assignment]) -> None:
    for assignment in assignments:
        memory.known.doubt(assignment, memory.now)


def _remember(
    services: Services,
    memory: LeaderMemory,
    batch: Sequence[Assignment],
    assigned: Sequence[Assigned],
) -> list[Assignment]:
    for item in assigned:
        memory.known.came_true(item, memory.now)
    assigned_ids = {id(item.assignment) for item in assigned}
    refused = [assignment for assignment in batch if id(assignment) not in assigned_ids]
    _doubt(memory, refused)
    # Once for all ranges of an array: they were refused for one reason.
    for assignment in {item.task_id: item for item in refused}.values():
        _refused(services, memory, assignment)
    return [item.assignment for item in assigned]


def _refused(services: Services, memory: LeaderMemory, assignment: Assignment) -> None:
    """A single refusal is a normal race; repeated ones mean that the memory is wrong."""
    until = memory.now + services.settings.schedule_poll_seconds
    if memory.known.refuse(assignment.task_id, until):
        log.error(
            "a plan was refused repeatedly", task_id=assignment.task_id, node_id=assignment.node_id
        )


async def _trace(services: Services, assigned: Sequence[Assigned], began_ns: int) -> None:
    tasks = {item.assignment.task_id for item in assigned}
    async with services.database.statement() as connection:
        await record_traces(connection, "schedule", tasks, began_ns)


async def _wake(services: Services, assigned: Sequence[Assigned]) -> None:
    for item in assigned:
        log.debug(
            "task assigned",
            task_id=item.assignment.task_id,
            attempt_id=item.attempt_id,
            node_id=item.assignment.node_id,
        )
    for node_id in sorted({item.assignment.node_id for item in assigned}):
        await services.live.wake(topics.node(node_id))
    if assigned:
        await services.live.wake(topics.OUTBOX)
