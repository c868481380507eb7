"""Errors are stored by kind and place: counted over instances, and bounded."""

import asyncio
from datetime import timedelta

import pytest

from potluck.local.error_tally import ErrorTally
from potluck.server.loops import error_log as error_log_loop
from potluck.server.loops.error_log import ErrorLogLoop
from potluck.store.alerts import error_log
from tests.server.flow.pool import Pool


async def listed(pool: Pool) -> list[tuple[str, int]]:
    async with pool.services.database.transaction() as connection:
        groups = await error_log.list_latest(connection, 1_000)
    return [(group.place, group.occurrences) for group in groups]


@pytest.mark.every_postgres
async def test_errors_of_several_instances_are_counted_together(pool: Pool) -> None:
    tallies = [ErrorTally() for _ in range(2)]
    for tally in tallies:
        for _ in range(3):
            tally.note("a plan was refused repeatedly", None, "a plan was refused repeatedly")
        await ErrorLogLoop(pool.services, tally).run_once()
    assert await listed(pool) == [("a plan was refused repeatedly", 6)]


async def test_text_that_postgresql_cannot_store_is_replaced(pool: Pool) -> None:
    tally = ErrorTally()
    tally.note("request failed", ValueError("nul \0 and surrogate \udc80"), "request failed")
    await ErrorLogLoop(pool.services, tally).run_once()
    assert await listed(pool) == [("unknown", 1)]


async def test_unstored_errors_are_stored_later(pool: Pool) -> None:
    tally = ErrorTally()
    tally.note("request failed", None, "request failed")
    await pool.sql("ALTER TABLE error_groups RENAME TO hidden")
    loop = ErrorLogLoop(pool.services, tally)
    await loop.run_once()
    await pool.sql("ALTER TABLE hidden RENAME TO error_groups")
    await loop.run_once()
    assert await listed(pool) == [("request failed", 1)]


async def test_the_end_does_not_wait_for_a_database_that_hangs(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table stays locked until the loop has ended."""
    monkeypatch.setattr(error_log_loop, "_LAST_SECONDS", 0.1)
    tally = ErrorTally()
    tally.note("request failed", None, "request failed")
    async with pool.services.database.transaction() as connection:
        await connection.execute("LOCK error_groups")
        loop = asyncio.create_task(ErrorLogLoop(pool.services, tally).run())
        await asyncio.sleep(0)
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
        assert tally.collect() == [], "the last try was cancelled, and did not fail"


async def test_old_groups_are_deleted_and_the_least_recent_if_there_are_too_many(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_log, "_MOST_GROUPS", 3)
    tally = ErrorTally()
    for number in range(5):
        tally.note(f"error {number}", None, f"error {number}")
        await ErrorLogLoop(pool.services, tally).run_once()
    async with pool.services.database.transaction() as connection:
        assert await error_log.delete_old(connection, timedelta(days=1), 10) == 2
    assert [place for place, _ in await listed(pool)] == ["error 4", "error 3", "error 2"]
    async with pool.services.database.transaction() as connection:
        assert await error_log.delete_old(connection, timedelta(), 10) == 3
