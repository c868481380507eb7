"""A migration that was committed is never edited, and within a minor version they only add."""

from collections.abc import Iterator

import asyncpg
import pytest

from potluck import __version__
from potluck.store.schema import COMPATIBLE_SINCE, REPAIR, read_migrations
from potluck.wire.version import minor_version
from tests.databases import Databases
from tests.store.schema_history import FOLDER, git, need_history
from tests.store.schema_shape import list_broken, read_shape

# A file that is renamed is deleted in its place.
_EDITS = ("--no-renames", "--diff-filter=MDT", "--name-only")
_LOG = ("log", "-m", "--first-parent", "--format=", *_EDITS)


def test_no_committed_migration_was_edited_since_the_repair() -> None:
    """Up to then many were, and what the repair makes equal is what was there when it came."""
    need_history()
    repair = f"{FOLDER}/{REPAIR}_repair.sql"
    added = git("log", "--first-parent", "-m", "--diff-filter=A", "--format=%H", "--", repair)
    if not added:
        return  # it is not committed yet
    since = added.split()[-1]
    edited = git(*_LOG, f"{since}..HEAD", "--", f"{FOLDER}/*.sql")
    edited += git("diff", *_EDITS, "HEAD", "--", f"{FOLDER}/*.sql")
    assert edited.split() == [], "a committed migration is never edited; write a new one"


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.number for migration in read_migrations()]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]


def test_the_compatible_migrations_belong_to_this_minor_version() -> None:
    """A new minor version decides anew: servers are stopped for it, or its migrations only add."""
    assert minor_version(__version__) == (0, 2), "raise COMPATIBLE_SINCE if needed, then this"
    assert COMPATIBLE_SINCE == "0018"


@pytest.fixture
def empty_url(databases: Databases) -> Iterator[str]:
    with databases.empty() as url:
        yield url


async def test_migrations_of_a_minor_version_only_add(empty_url: str) -> None:
    """By their effect, not by their text: a server that does not know them goes on working."""
    connection = await asyncpg.connect(empty_url)
    try:
        for migration in read_migrations():
            await connection.execute(migration.text)
            if migration.number == COMPATIBLE_SINCE:
                before = await read_shape(connection)
        broken = list_broken(before, await read_shape(connection))
    finally:
        await connection.close()
    assert broken == [], "an instance that has not been upgraded yet would fail"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("ALTER TABLE tasks DROP COLUMN retry_of", "tasks.retry_of is gone"),
        ("ALTER TABLE tasks RENAME COLUMN name TO title", "tasks.name is gone"),
        (
            "ALTER TABLE tasks ALTER COLUMN secret_count TYPE bigint",
            "tasks.secret_count has another type",
        ),
        ("ALTER TABLE tasks ALTER COLUMN retry_of SET NOT NULL", "tasks.retry_of is required"),
        (
            "ALTER TABLE tasks ALTER COLUMN secret_count DROP DEFAULT",
            "tasks.secret_count is required",
        ),
        ("ALTER TABLE tasks ADD COLUMN colour text NOT NULL", "tasks.colour is required"),
        ("ALTER TABLE webhooks RENAME TO hooks", "webhooks.id is gone"),
        ("DROP FUNCTION lock_attempts(text[])", "lock_attempts(wanted text[]) is gone"),
        ("ALTER TABLE tasks ADD CHECK (length(name) < 100)", "tasks has a new constraint"),
        ("CREATE UNIQUE INDEX ON tasks (account_id, name)", "tasks has a new unique index"),
        (
            "ALTER TABLE devices DROP CONSTRAINT devices_standing_check,"
            " ADD CONSTRAINT devices_standing_check CHECK (standing IN ('bound', 'elsewhere'))",
            "devices_standing_check allows less",
        ),
    ],
)
async def test_changes_that_would_break_an_earlier_server_are_found(
    database_url: str, change: str, sentence: str
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        before = await read_shape(connection)
        await connection.execute(change)
        broken = list_broken(before, await read_shape(connection))
    finally:
        await connection.close()
    assert any(sentence in problem for problem in broken), broken


async def test_additions_break_nothing(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        before = await read_shape(connection)
        await connection.execute("""
            ALTER TABLE tasks ADD COLUMN colour text NOT NULL DEFAULT 'blue', ADD COLUMN shade text,
                ADD CHECK (shade <> colour);
            CREATE INDEX ON tasks (colour);
            CREATE TABLE colours (name text PRIMARY KEY);
            ALTER TABLE devices DROP CONSTRAINT devices_standing_check,
                ADD CONSTRAINT devices_standing_check
                CHECK (standing IN ('bound', 'elsewhere', 'contested', 'foreign', 'lent'));
            CREATE FUNCTION shade() RETURNS text LANGUAGE sql RETURN 'dark';
        """)
        assert list_broken(before, await read_shape(connection)) == []
    finally:
        await connection.close()
