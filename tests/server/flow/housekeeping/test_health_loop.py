"""Health checks: a database that hangs is told soon, whatever its driver still waits for."""

import asyncio
import os
import signal

import pytest

from potluck.server.loops import health
from potluck.server.loops.health import HealthLoop
from potluck.store.connector import CONNECT_SECONDS
from tests.server.flow.pool import Pool

BACKENDS = "SELECT array_agg(pid) FROM pg_stat_activity WHERE datname = current_database()"


async def test_a_connection_that_hangs_holds_up_no_check(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given back after its time, it waits for the end of its statement for as long as for another
    connection."""
    monkeypatch.setattr(health, "_ANSWER_SECONDS", 0.05)
    loop, record = HealthLoop(pool.services), pool.services.health
    backends: list[int] = await pool.sql(BACKENDS)
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(CONNECT_SECONDS / 2):
            for _ in range(3):
                await loop.run_once()
                assert record.latest.parts["database"] == "does not answer"
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)
    async with asyncio.timeout(30):
        while record.latest.parts["database"] != "ok":
            await loop.run_once()
