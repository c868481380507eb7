"""Databases of earlier commits, whose migrations were edited later, become like new ones."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from potluck.model.error import StartFailed
from potluck.store import schema
from tests.databases import Databases
from tests.processes import potluck
from tests.store.schema_history import Chain, catalogue, make_old, mixed_chains, need_history, trees

# Of each migration the object in git, in the order of their numbers.
_BEFORE_SEALING: Chain = ("9426bc30", "2190fe", "9bf94af3", "1c41846b", "73f5a02e")
_BEFORE_ASSIGNING: Chain = (
    *("271aa8ee", "2190fe", "9bf94af3", "1c41846b", "73f5a02e"),
    *("278ab95f", "abb55d39", "e139402a", "9546837b", "c6e0f041"),
)
# Upgraded to 0015 without an error, and of no use then.
_BEFORE_PLACES: Chain = (
    *("271aa8ee", "2190fe", "ab6598ca", "4dd60629", "62c9a955", "d1e5a360", "ed1a6e6d", "c4f57fc7"),
    *("9546837b", "c6e0f041", "c495a9", "be9ec138", "d1cce8", "a0385a", "0bd4e1"),
)

_ROWS_OF_0005 = """
INSERT INTO accounts (id, address) VALUES ('account_1', '0x1');
INSERT INTO nodes (id, account_id, name, state, own_tasks_only, description, cores, memory_bytes,
    disk_bytes, free_cores, free_memory_bytes, free_disk_bytes)
VALUES ('node_1', 'account_1', 'n', 'online', false, '{}', 4, 40, 400, 1, 10, 400);
INSERT INTO tasks (id, account_id, name, request, request_hash, priority, state)
VALUES ('task_1', 'account_1', 't', '{"spec": {"kind": "script"}, "requirements": {},
    "limits": {"prepare_seconds": 7.5}, "max_attempts": 3}', '', 0, 'running');
INSERT INTO attempts (id, task_id, node_id, consumer_id, provider_id, number, cores, memory_bytes,
    disk_bytes, price_micro_per_hour, hold_micro, run_seconds_limit, log_bytes_limit,
    lease_expires_at)
VALUES ('attempt_1', 'task_1', 'node_1', 'account_1', 'account_1', 1, 3, 30, 0, 0, 0, 60, 1, now());
INSERT INTO device_approvals (code_hash, address, machine, expires_at)
VALUES (sha256('x'), '0x1', 'm', now());
"""
_ROWS_OF_0010 = """
INSERT INTO accounts (id, address) VALUES ('account_1', '0x1'), ('account_2', '0x2');
INSERT INTO node_keys (id, account_id, address, machine, origin, scopes, nonce, signature,
    issued_at, expires_at)
VALUES ('key_1', 'account_1', '0x3', 'm', 'o', '{node}', 'n', 's', now(), now() + interval '1 d');
INSERT INTO nodes (id, account_id, name, state, own_tasks_only, description, cores, memory_bytes,
    disk_bytes, node_key_id, heartbeat_at)
VALUES ('node_1', 'account_1', 'n', 'online', false, '{}', 4, 40, 400, 'key_1', now()),
    ('node_2', 'account_1', 'n', 'online', false, '{}', 4, 40, 400, 'key_1', 'infinity');
INSERT INTO devices (id, node_id, uuid, position, kind, description, model, memory_bytes,
    price_micro_per_hour, standing)
VALUES ('device_1', 'node_1', 'u', 0, 'gpu', '{}', 'm', 1, 0, 'bound'),
    ('device_2', 'node_2', 'u', 0, 'gpu', '{}', 'm', 1, 0, 'bound');
INSERT INTO bindings (uuid, account_id) VALUES ('u', 'account_1');
INSERT INTO contests (uuid, contender_id, seed, closes_at, has_incumbent_answered)
VALUES ('u', 'account_2', sha256('x'), now(), true);
INSERT INTO tasks (id, account_id, name, kind, requirements, limits, max_attempts, sealed_spec,
    request_hash, priority, state, finished_at)
SELECT id, 'account_1', 't', 'script', '{}', '{}', 3, 'sealed', '', 0, state, finished_at
FROM (VALUES ('task_1', 'failed', now()), ('task_2', 'queued', NULL), ('task_3', 'queued', NULL))
    AS tasks (id, state, finished_at);
INSERT INTO dependencies (task_id, after_id, outcome)
VALUES ('task_2', 'task_1', 'failed'), ('task_3', 'task_2', NULL);
INSERT INTO blobs (sha256, size_bytes, object_key) VALUES (sha256('x'), 10000, 'x');
INSERT INTO blob_claims (account_id, sha256, pinned_until) VALUES ('account_1', sha256('x'), now());
INSERT INTO uploads (id, account_id, sha256, size_bytes, part_bytes)
VALUES ('upload_1', 'account_1', sha256('y'), 1, 1);
"""
_ROWS_OF_0015 = """
INSERT INTO accounts (id, address) VALUES ('account_1', '0x1');
INSERT INTO events (account_id, kind, data)
VALUES ('account_1', 'task.queued', '{}'), ('account_1', 'task.finished', '{}');
"""


@pytest.fixture
def empty_url(databases: Databases) -> Iterator[str]:
    with databases.empty() as url:
        yield url


@pytest.fixture
async def connection(empty_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(empty_url)
    yield connection
    await connection.close()


async def test_a_database_without_tokens_free_numbers_and_seals_is_upgraded(
    empty_url: str, connection: asyncpg.Connection, database_url: str
) -> None:
    need_history()
    assert await make_old(connection, _BEFORE_SEALING) == 5
    await connection.execute(_ROWS_OF_0005)
    await schema.migrate(empty_url)
    assert await catalogue(empty_url) == await catalogue(database_url)
    node = await connection.fetchrow("SELECT * FROM nodes")
    assert (node["used_cores"], node["used_memory_bytes"], node["used_disk_bytes"]) == (3, 30, 0)
    task = await connection.fetchrow("SELECT * FROM tasks")
    assert (task["kind"], task["max_attempts"]) == ("script", 3)
    assert await connection.fetchval("SELECT prepare_seconds_limit FROM attempts") == 7.5


async def test_a_database_without_places_of_blobs_and_ended_tasks_is_upgraded(
    empty_url: str, connection: asyncpg.Connection, database_url: str
) -> None:
    need_history()
    assert await make_old(connection, _BEFORE_ASSIGNING) == 10
    await connection.execute(_ROWS_OF_0010)
    await schema.migrate(empty_url)
    assert await catalogue(empty_url) == await catalogue(database_url)
    outcomes = await connection.fetch("SELECT after_id, outcome FROM ended_tasks")
    assert [tuple(row) for row in outcomes] == [("task_1", "failed")]
    assert await connection.fetchval("SELECT count(*) FROM dependencies") == 2
    keys = await connection.fetch("SELECT id FROM nodes WHERE node_key_id IS NOT NULL")
    assert [row["id"] for row in keys] == ["node_2"], "the node that was seen last keeps the key"
    assert await connection.fetchval("SELECT node_id FROM bindings") == "node_1"
    standings = await connection.fetch("SELECT node_id, standing FROM devices ORDER BY 1")
    assert [row["standing"] for row in standings] == ["bound", "elsewhere"]
    contest = await connection.fetchrow("SELECT * FROM contests")
    assert (contest["incumbent_was_right"], contest["contender_was_right"]) == (True, None)
    assert contest["incumbent_by"] == contest["contender_by"]
    # A claim of 10,000 bytes, and an upload that counts as 4,096.
    assert await connection.fetchval("SELECT used_bytes FROM blob_use") == 14_096


async def test_a_database_whose_scheduler_failed_each_second_is_upgraded(
    empty_url: str, connection: asyncpg.Connection, database_url: str
) -> None:
    need_history()
    assert await make_old(connection, _BEFORE_PLACES) == 15
    await connection.execute(_ROWS_OF_0015)
    await schema.migrate(empty_url)
    assert await catalogue(empty_url) == await catalogue(database_url)
    events = await connection.fetch("SELECT id, place FROM events ORDER BY 1")
    assert [tuple(row) for row in events] == [(1, 1), (2, 2)]
    assert tuple(await connection.fetchrow("SELECT place, told FROM event_head")) == (2, 2)
    news = "SELECT is_news(changed, pg_current_snapshot()) FROM accounts"
    assert await connection.fetchval(news) is False


async def test_several_instances_that_start_at_once_make_one_database(
    empty_url: str, database_url: str
) -> None:
    await asyncio.gather(*(schema.migrate(empty_url) for _ in range(3)))
    assert await catalogue(empty_url) == await catalogue(database_url)


async def test_migrating_again_changes_nothing(database_url: str) -> None:
    before = await catalogue(database_url)
    await schema.migrate(database_url)
    assert await catalogue(database_url) == before


async def test_a_migration_that_fails_leaves_the_database_as_it_was(
    empty_url: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("CREATE TABLE webhooks ()")
    with pytest.raises(StartFailed, match=r"Migration 0014 .* Nothing was changed"):
        await schema.migrate(empty_url)
    tables = await connection.fetch("SELECT relname FROM pg_stat_user_tables")
    assert [row["relname"] for row in tables] == ["webhooks"]


@pytest.mark.parametrize("compatible_since", ["NULL", "'8999'"])
async def test_a_server_older_than_its_database_says_so(
    database_url: str, compatible_since: str
) -> None:
    await _add_later_migration(database_url, compatible_since)
    with pytest.raises(StartFailed) as raised:
        await schema.migrate(database_url)
    assert "migration 9000" in raised.value.detail and "newer version" in raised.value.detail


async def test_a_server_starts_with_what_a_later_one_of_its_minor_version_has_added(
    database_url: str,
) -> None:
    newest = schema.read_migrations()[-1].number
    await _add_later_migration(database_url, f"'{newest}'")
    before = await catalogue(database_url)
    await schema.migrate(database_url)
    assert await catalogue(database_url) == before, "nor is the version of the schema set back"


async def _add_later_migration(url: str, compatible_since: str) -> None:
    await _execute(
        url,
        "INSERT INTO applied_migrations (number, checksum, compatible_since)"
        f" VALUES ('9000', sha256('later'), {compatible_since})",
    )
    await _execute(url, "UPDATE schema_version SET version_num = '9000'")


async def test_a_database_that_recorded_no_compatibility_is_upgraded(database_url: str) -> None:
    await _execute(database_url, "ALTER TABLE applied_migrations DROP COLUMN compatible_since")
    await schema.migrate(database_url)
    await schema.migrate(database_url)


def test_a_server_does_not_start_with_a_migration_that_was_edited_after_it_was_applied(
    database_url: str, tmp_path: Path
) -> None:
    edit = "UPDATE applied_migrations SET checksum = sha256('') WHERE number = '0009'"
    asyncio.run(_execute(database_url, edit))
    process = subprocess.run(
        potluck("server", "--port", "0", "--data-dir", tmp_path),
        env={**os.environ, "POTLUCK_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == StartFailed.exit_status
    assert "Migration 0009 in the database differs" in process.stderr


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_every_database_that_a_commit_could_make_is_upgraded(
    part: int, databases: Databases, database_url: str
) -> None:
    """Made whole by each commit, or by upgrades at several commits."""
    new = asyncio.run(catalogue(database_url))
    for upgrades in [*([tree] for tree in trees()[part::4]), *mixed_chains(seed=part, count=15)]:
        with databases.empty() as url:
            newest = asyncio.run(_make_and_upgrade(url, upgrades))
            difference = asyncio.run(catalogue(url)) ^ new
            assert difference == set(), f"from {newest:04}, made by {upgrades}"


async def _make_and_upgrade(url: str, upgrades: list[Chain]) -> int:
    connection = await asyncpg.connect(url)
    newest = await make_old(connection, *upgrades)
    await connection.close()
    await schema.migrate(url)
    return newest


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()
