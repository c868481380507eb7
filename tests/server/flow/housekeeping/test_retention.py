"""What has ended is cleared away: all of it, and whatever else goes wrong."""

import pytest
from msgspec.structs import replace

from potluck.server.loops.retention import RetentionLoop
from tests.server.flow.pool import Pool

MANY = 2_500  # more than one statement clears

ENDED = {
    "used_nonces": "INSERT INTO used_nonces (nonce, expires_at)"
    " SELECT n::text, now() - interval '2 hours' FROM generate_series(1, $1) AS n",
    "terminal_approvals": "INSERT INTO terminal_approvals (code_hash, address, machine, expires_at)"
    " SELECT sha256(n::text::bytea), '0x', 'm', now() - interval '2 hours'"
    " FROM generate_series(1, $1) AS n",
    "sessions": "INSERT INTO sessions (id, account_id, machine, expires_at)"
    " SELECT n::text, (SELECT min(id) FROM accounts), 'm', now() - interval '31 days'"
    " FROM generate_series(1, $1) AS n",
    "events": "INSERT INTO events (account_id, kind, data, place, created_at)"
    " SELECT (SELECT min(id) FROM accounts), 'task.running', '{}', n, now() - interval '31 days'"
    " FROM generate_series(1, $1) AS n",
}
NOT_YET = {
    "used_nonces": "UPDATE used_nonces SET expires_at = now() WHERE nonce = '1'",
    "terminal_approvals": "UPDATE terminal_approvals SET expires_at = now()"
    " WHERE code_hash = sha256('1')",
    "sessions": "UPDATE sessions SET expires_at = now() WHERE id = '1'",
    "events": "UPDATE events SET created_at = now() WHERE place = 2500",
}


@pytest.fixture
def tidy(pool: Pool) -> RetentionLoop:
    quick = replace(pool.services.settings, tidy_seconds=0.01)
    return RetentionLoop(replace(pool.services, settings=quick))


@pytest.mark.parametrize("table", ENDED)
async def test_ended_objects_are_removed_in_one_run(
    pool: Pool, tidy: RetentionLoop, table: str
) -> None:
    await pool.sql(ENDED[table], MANY)
    await pool.sql(NOT_YET[table])
    await tidy.run_once()
    assert await pool.sql(f"SELECT count(*) FROM {table}") == 1, "the one that ended just now"


@pytest.mark.parametrize("broken", ["used_nonces", "terminal_approvals", "sessions", "tasks"])
async def test_a_failing_deletion_does_not_block_others(
    pool: Pool, tidy: RetentionLoop, broken: str
) -> None:
    task = await pool.submit()
    await pool.sql("DELETE FROM events")
    await pool.sql("UPDATE accounts SET suspended_at = now() WHERE id = $1", pool.alice)
    for table, statement in ENDED.items():
        await pool.sql(statement, 1)
        assert await pool.sql(f"SELECT count(*) FROM {table}") == 1
    await pool.sql(f"ALTER TABLE {broken} RENAME TO elsewhere")
    await tidy.run_once()
    # What is called off with the suspended is a new event.
    for table in ENDED.keys() - {broken, "events"}:
        assert await pool.sql(f"SELECT count(*) FROM {table}") == 0
    if broken != "tasks":
        assert (await pool.task(task.id)).state == "cancelled"
