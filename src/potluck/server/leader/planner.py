"""Runs what the leader decides, one call at a time: in a thread of its own, or inline.

In a thread, requests are served meanwhile, however long a decision takes. Everything that
changes the scheduler, or reads more than one entry of it, goes through the same planner, so that no
two calls overlap.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Planner(Protocol):
    async def __call__(self, work: Callable[[], T]) -> T: ...


class PlannerThread:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "planner")

    async def __call__(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


async def plan_inline(work: Callable[[], T]) -> T:
    """For virtual time, and for tests that call the scheduler themselves."""
    return work()
