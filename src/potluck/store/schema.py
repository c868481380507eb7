"""Brings the schema of a database to this version.

A database knows which migrations were applied to it, and the checksum of each. It is changed in one
transaction, or not at all.

Within a minor version migrations only add, so that servers can be upgraded one after the other: one
that lacks the newest migrations continues to work with the database, and starts with it.
"""

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Container, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import structlog
from msgspec import Struct

from potluck.model.error import BadSettings, StartFailed, Unavailable
from potluck.store.connector import DATABASE_OPTION, DatabaseConnector
from potluck.store.database import NOT_NOW, Connection, unavailable

OLDEST_POSTGRES = 15
_LOCK_TRIES = 20
_LONGEST_PAUSE_SECONDS = 5.0
# The first with checksums. What earlier ones were when they were applied is not known: many were
# edited. This one makes all of their forms equal, so it comes before those that are still missing.
REPAIR = "0016"
# Servers that know the migrations up to this one work with the schema of this version: later ones
# only add to it. Raised only together with the minor version; then servers are stopped first.
COMPATIBLE_SINCE = "0018"

_MIGRATIONS = Path(__file__).parent / "migrations" / "versions"
# Any constant, the same on every instance.
_LOCK = 7_046_029_254_386_353_131
_APPLIED = """
CREATE TABLE applied_migrations (
    number     text COLLATE "C" PRIMARY KEY,
    checksum   bytea NOT NULL CHECK (length(checksum) = 32),
    applied_at timestamptz NOT NULL DEFAULT now(),
    -- The oldest migration that a server must know to work with this one; NULL for the first ones.
    compatible_since text COLLATE "C"
)
"""
# Also from a database that has no compatibility yet.
_READ_APPLIED = """
SELECT number, checksum, to_jsonb(applied) ->> 'compatible_since' AS compatible_since
FROM applied_migrations AS applied
"""
_IS_EMPTY = """
SELECT NOT EXISTS (
    SELECT FROM pg_class
    WHERE relkind = 'r' AND relnamespace = current_schema()::text::regnamespace)
"""
_SET_LOCK_TIMEOUT = "SELECT set_config('lock_timeout', $1, true)"
_SET_VERSION = "UPDATE schema_version SET version_num = $1 WHERE version_num < $1"
_HAS_COMPATIBILITY = """
SELECT EXISTS (SELECT FROM pg_attribute
    WHERE attrelid = 'applied_migrations'::regclass AND attname = 'compatible_since')
"""
_ADD_COMPATIBILITY = 'ALTER TABLE applied_migrations ADD COLUMN compatible_since text COLLATE "C"'

log = structlog.get_logger()


class Migration(Struct, frozen=True):
    number: str
    name: str
    text: str

    @property
    def checksum(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


class AppliedMigration(Struct, frozen=True):
    checksum: bytes
    compatible_since: str | None = None


def read_migrations() -> tuple[Migration, ...]:
    """All that this version has, in their order."""
    files = sorted(_MIGRATIONS.glob("[0-9]*.sql"))
    return tuple(map(_read, files))


def _read(file: Path) -> Migration:
    number, _, name = file.stem.partition("_")
    return Migration(number, name, file.read_text())


# Requests hold locks that a migration needs, and one of them may wait for the migration's.
_BLOCKED = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
# An invalid address, an untrusted certificate, a socket of another user: waiting changes nothing.
_REFUSED = (ValueError, ssl.SSLError, PermissionError, asyncpg.InterfaceError)


async def migrate(url: str, lock_seconds: float = 3.0) -> list[Migration]:
    """Returns what was applied. Safe when several instances start at once: one applies, and the
    others wait for it. Safe through PgBouncer too: the lock is the transaction's, and no statement
    has a name that another session could find in use.

    A statement that changes a table waits for the requests that use it, and further requests wait
    behind it. So after `lock_seconds` everything is rolled back, they pass, and it tries again.
    """
    for attempt in range(_LOCK_TRIES):
        await asyncio.sleep(min(attempt, _LONGEST_PAUSE_SECONDS))
        try:
            async with _connection(url) as connection:
                return await _upgrade(connection, read_migrations(), lock_seconds)
        except _BLOCKED:
            log.warning("a migration waits for a lock", tried=attempt + 1)
    raise Unavailable(
        f"The database's schema could not be changed: a transaction holds a lock, {_LOCK_TRIES}"
        " times in a row.",
        "End long transactions (pg_stat_activity shows them), and try again.",
    )


async def list_pending(url: str) -> list[Migration]:
    """Those that `migrate` would apply, in their order."""
    known_migrations = read_migrations()
    async with _connection(url) as connection, connection.transaction(readonly=True):
        if await _has_table(connection, "applied_migrations"):
            applied = await _read_applied(connection)
            _check(known_migrations, applied)
            return [migration for migration in known_migrations if migration.number not in applied]
        newest = ""
        if await _has_table(connection, "schema_version"):
            newest = await connection.fetchval("SELECT max(version_num) FROM schema_version") or ""
        repair = (
            [migration for migration in known_migrations if migration.number == REPAIR]
            if newest
            else []
        )
        return repair + [
            migration
            for migration in known_migrations
            if migration.number > newest and migration not in repair
        ]


@asynccontextmanager
async def _connection(url: str) -> AsyncIterator[Connection]:
    try:
        connection = await DatabaseConnector(url).connect(statement_cache_size=0)
        try:
            yield connection
        finally:
            await connection.close()
    except _BLOCKED:
        raise
    except NOT_NOW as error:
        raise unavailable() from error


async def _has_table(connection: Connection, name: str) -> bool:
    return await connection.fetchval("SELECT to_regclass($1)", name) is not None


async def check_address(url: str, source: str = DATABASE_OPTION) -> None:
    """Raises Unavailable if the configured database is away or starting, and BadSettings if it
    refuses this address or is too old."""
    connector = DatabaseConnector(url, source)
    try:
        connection = await connector.connect()
    # Not `from error`, which may have the password in it.
    except _REFUSED as error:
        raise _bad_database(source, f"cannot be used: {connector.explain(error)}") from None
    except NOT_NOW as error:
        raise Unavailable(
            f"The PostgreSQL in {source} does not answer: {connector.explain(error)}.",
            "Make sure that it runs, and that host and port are right.",
        ) from None
    except asyncpg.PostgresError as error:
        raise _bad_database(source, f"refuses the connection: {connector.explain(error)}") from None
    version = connection.get_server_version()
    await connection.close()
    if version.major < OLDEST_POSTGRES:
        needed = f"Potluck needs {OLDEST_POSTGRES} or later"
        raise _bad_database(source, f"is version {version.major}; {needed}")


async def is_empty(connection: Connection) -> bool:
    """Whether the schema has no table."""
    is_empty: bool = await connection.fetchval(_IS_EMPTY)
    return is_empty


async def set_aside(connection: Connection, name: str) -> str | None:
    """Renames the schema, if it has tables, and makes an empty one. Returns its new name."""
    if await is_empty(connection):
        return None
    # The name is ours, and that of the schema is quoted by PostgreSQL.
    quoted = await connection.fetchval("SELECT quote_ident(current_schema())")
    await connection.execute(f"ALTER SCHEMA {quoted} RENAME TO {name}")
    await connection.execute(f"CREATE SCHEMA {quoted}")
    return name


async def install(connection: Connection, numbers: Container[str]) -> None:
    """Makes the tables in an empty schema, as these migrations left them."""
    await connection.execute(_APPLIED)
    chosen = [migration for migration in read_migrations() if migration.number in numbers]
    await _apply(connection, chosen)
    await connection.execute(_SET_VERSION, chosen[-1].number)


def _bad_database(source: str, why: str) -> BadSettings:
    return BadSettings(
        f"The PostgreSQL in {source} {why}.",
        "Use the form postgresql://user:password@host:5432/potluck, and make sure that it runs.",
    )


async def _upgrade(
    connection: Connection, migrations: tuple[Migration, ...], lock_seconds: float
) -> list[Migration]:
    async with connection.transaction():
        # Without a timeout: another instance may be migrating.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute(_SET_LOCK_TIMEOUT, f"{lock_seconds * 1000:.0f}ms")
        applied = await _applied(connection, migrations)
        _check(migrations, applied)
        missing = [migration for migration in migrations if migration.number not in applied]
        await _apply(connection, missing)
        await connection.execute(_SET_VERSION, migrations[-1].number)
        # The database may be a dump of another cluster, whose transactions had higher ids.
        await connection.execute("SELECT continue_event_places()")
    return missing


async def _applied(
    connection: Connection, migrations: tuple[Migration, ...]
) -> Mapping[str, AppliedMigration]:
    """The migrations that the database has, by number."""
    if not await _has_table(connection, "applied_migrations"):
        await connection.execute(_APPLIED)
        if await _has_table(connection, "schema_version"):
            await _repair(connection, migrations)
    elif not await connection.fetchval(_HAS_COMPATIBILITY):
        await connection.execute(_ADD_COMPATIBILITY)
    return await _read_applied(connection)


async def _read_applied(connection: Connection) -> Mapping[str, AppliedMigration]:
    rows = await connection.fetch(_READ_APPLIED)
    return {
        row["number"]: AppliedMigration(row["checksum"], row["compatible_since"]) for row in rows
    }


async def _repair(connection: Connection, migrations: tuple[Migration, ...]) -> None:
    """For a database from before checksums. `schema_version` has its newest migration."""
    newest = await connection.fetchval("SELECT max(version_num) FROM schema_version") or ""
    await _apply(connection, [migration for migration in migrations if migration.number == REPAIR])
    earlier = [
        migration
        for migration in migrations
        if migration.number <= newest and migration.number != REPAIR
    ]
    await _record(connection, earlier)


def is_compatible(newest_known: str, schema_version: str, compatible_since: str | None) -> bool:
    """Whether a server works with a schema that has migrations which it does not know."""
    if schema_version <= newest_known:
        return schema_version == newest_known
    return compatible_since is not None and compatible_since <= newest_known


def _check(migrations: tuple[Migration, ...], applied: Mapping[str, AppliedMigration]) -> None:
    newer = sorted(applied.keys() - {migration.number for migration in migrations})
    if any(
        not is_compatible(migrations[-1].number, number, applied[number].compatible_since)
        for number in newer
    ):
        raise StartFailed(
            f"The database has migration {newer[-1]}, which this version of Potluck does not have:"
            " a newer version has upgraded the database, and changed what this one relies on.",
            "Start the newer version, or restore a backup from before the upgrade.",
        )
    for migration in migrations:
        applied_migration = applied.get(migration.number)
        if applied_migration is not None and applied_migration.checksum != migration.checksum:
            raise StartFailed(
                f"Migration {migration.number} in the database differs from the one in this version"
                " of Potluck.",
                "Start the version that made the database, or restore a backup: one of the two was"
                " changed by hand, and the tables may not be as this version expects.",
            )


async def _apply(connection: Connection, migrations: Iterable[Migration]) -> None:
    for migration in migrations:
        try:
            await connection.execute(migration.text)
        except NOT_NOW:
            raise
        except asyncpg.PostgresError as error:
            raise StartFailed(
                f"Migration {migration.number} of the database failed: {error}."
                " Nothing was changed.",
                "Start the version that made the database, and report this error.",
            ) from error
        await _record(connection, [migration])


async def _record(connection: Connection, migrations: Iterable[Migration]) -> None:
    await connection.executemany(
        "INSERT INTO applied_migrations (number, checksum, compatible_since) VALUES ($1, $2, $3)",
        [(migration.number, migration.checksum, COMPATIBLE_SINCE) for migration in migrations],
    )
