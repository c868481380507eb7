"""Somebody who leads, and answers what the others ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from potluck.server.leader.memory import LeaderMemory
from potluck.server.loops.leader_rpc import LeaderRpcLoop
from tests.server.flow.pool import Pool


@asynccontextmanager
async def leading(pool: Pool) -> AsyncIterator[LeaderMemory]:
    """Somebody answers from a memory that is up to date."""
    memory = LeaderMemory(pool.services)
    await memory.begin()
    while not memory.is_loaded:
        await memory.load_more()

    async def answer() -> None:
        while True:
            await LeaderRpcLoop(pool.services, memory).run_once()

    answer_task = asyncio.create_task(answer())
    try:
        yield memory
    finally:
        answer_task.cancel()
        await asyncio.gather(answer_task, return_exceptions=True)
