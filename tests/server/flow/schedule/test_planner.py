"""The leader decides in a thread, in slices that end by time; requests go on meanwhile."""

import asyncio
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.decide.scheduler import Scheduler, SchedulerPlan
from potluck.server.flow.schedule.explain_task import answer_once
from potluck.server.flow.schedule.schedule import schedule_once
from potluck.server.leader.memory import LeaderMemory
from potluck.server.leader.planner import PlannerThread
from tests.server.flow.pool import Pool


async def test_requests_go_on_while_the_leader_decides(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan waits for something that only the loop can do."""
    memory = LeaderMemory(pool.services, planner=PlannerThread())
    await memory.begin()
    is_planning, may_end = threading.Event(), threading.Event()
    plan = Scheduler.plan

    def take_long(scheduler: Scheduler, *positional: Any) -> SchedulerPlan:
        is_planning.set()
        assert may_end.wait(30), "nothing was done meanwhile"
        return plan(scheduler, *positional)

    monkeypatch.setattr(Scheduler, "plan", take_long)
    deciding = asyncio.create_task(schedule_once(pool.services, pool.leads, memory))
    async with asyncio.timeout(30):
        while not is_planning.is_set():
            await asyncio.sleep(0.001)
        await pool.submit()
        may_end.set()
        await deciding


async def test_calls_into_the_scheduler_do_not_overlap() -> None:
    """Whatever calls overlap on the loop, their work in the thread does not."""
    planner = PlannerThread()
    names: list[str] = []

    async def work(name: str) -> None:
        def note() -> None:
            names.append(f"{name} begins")
            names.append(f"{name} ends")

        await planner(note)

    await asyncio.gather(*(work(f"{number}") for number in range(20)))
    assert names == [f"{number} {word}" for number in range(20) for word in ("begins", "ends")]


async def test_a_slice_ends_by_time_and_the_next_one_continues(pool: Pool) -> None:
    settings = replace(pool.services.settings, slice_seconds=1e-9)
    pool.services = replace(pool.services, settings=settings)
    await pool.offer(devices=3)
    for _ in range(3):
        await pool.submit()
    memory = LeaderMemory(pool.services, planner=PlannerThread())
    await memory.begin()
    slices = [await schedule_once(pool.services, pool.leads, memory) for _ in range(4)]
    assert [len(slice_.assigned) for slice_ in slices] == [1, 1, 1, 0]
    assert await answer_once(pool.services, memory) == 0
