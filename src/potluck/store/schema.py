"""Brings the schema of a database to this version.

A database knows which migrations were applied to it, and the checksum of each. It is changed in one
transaction, or not at all.
"""

import hashlib
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path

import asyncpg
from msgspec import Struct

from potluck.model.error import BadSettings, StartFailed, Unavailable
from potluck.store.connector import DatabaseConnector
from potluck.store.database import NOT_NOW, Connection, unavailable

OLDEST_POSTGRES = 15
# The first with checksums. What earlier ones were when they were applied is not known: many were
# edited. This one makes all of their forms equal, so it comes before those that are still missing.
REPAIR = "0016"

_MIGRATIONS = Path(__file__).parent / "migrations" / "versions"
# Any constant, the same on every instance.
_LOCK = 7_046_029_254_386_353_131
_APPLIED = """
CREATE TABLE applied_migrations (
    number     text COLLATE "C" PRIMARY KEY,
    checksum   bytea NOT NULL CHECK (length(checksum) = 32),
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""
_SET_VERSION = "UPDATE schema_version SET version_num = $1 WHERE version_num <> $1"


class Migration(Struct, frozen=True):
    number: str
    text: str

    @property
    def checksum(self) -> bytes:
        return hashlib.sha256(self.text.encode()).digest()


def read_migrations() -> tuple[Migration, ...]:
    """All that this version has, in their order."""
    files = sorted(_MIGRATIONS.glob("[0-9]*.sql"))
    return tuple(Migration(file.name.split("_", 1)[0], file.read_text()) for file in files)


# An invalid address, an untrusted certificate, a socket of another user: waiting changes nothing.
_REFUSED = (ValueError, ssl.SSLError, PermissionError, asyncpg.InterfaceError)


async def migrate(url: str) -> None:
    """Safe when several instances start at once."""
    try:
        connection = await DatabaseConnector(url).connect()
        try:
            await _upgrade(connection, read_migrations())
        finally:
            await connection.close()
    except NOT_NOW as error:
        raise unavailable() from error


async def check_address(url: str) -> None:
    """Raises Unavailable if the configured database is away or starting, and BadSettings if it
    refuses this address or is too old."""
    connector = DatabaseConnector(url)
    try:
        connection = await connector.connect()
    # Not `from error`, which may have the password in it.
    except _REFUSED as error:
        raise _bad_database(f"cannot be used: {connector.explain(error)}") from None
    except NOT_NOW as error:
        raise Unavailable(
            f"The PostgreSQL in --database-url does not answer: {connector.explain(error)}.",
            "Make sure that it runs, and that host and port are right.",
        ) from None
    except asyncpg.PostgresError as error:
        raise _bad_database(f"refuses the connection: {connector.explain(error)}") from None
    version = connection.get_server_version()
    await connection.close()
    if version.major < OLDEST_POSTGRES:
        raise _bad_database(f"is version {version.major}; Potluck needs {OLDEST_POSTGRES} or later")


def _bad_database(why: str) -> BadSettings:
    return BadSettings(
        f"The PostgreSQL in --database-url {why}.",
        "Use the form postgresql://user:password@host:5432/potluck, and make sure that it runs.",
    )


async def _upgrade(connection: Connection, known: tuple[Migration, ...]) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        applied = await _applied(connection, known)
        _check(known, applied)
        await _apply(connection, [each for each in known if each.number not in applied])
        await connection.execute(_SET_VERSION, known[-1].number)


async def _applied(connection: Connection, known: tuple[Migration, ...]) -> Mapping[str, bytes]:
    """The checksums of the migrations that the database has."""
    if await connection.fetchval("SELECT to_regclass('applied_migrations')") is None:
        await connection.execute(_APPLIED)
        if await connection.fetchval("SELECT to_regclass('schema_version')") is not None:
            await _repair(connection, known)
    rows = await connection.fetch("SELECT number, checksum FROM applied_migrations")
    return {row["number"]: row["checksum"] for row in rows}


async def _repair(connection: Connection, known: tuple[Migration, ...]) -> None:
    """For a database from before checksums. `schema_version` has its newest migration."""
    newest = await connection.fetchval("SELECT max(version_num) FROM schema_version") or ""
    await _apply(connection, [each for each in known if each.number == REPAIR])
    earlier = [each for each in known if each.number <= newest and each.number != REPAIR]
    await _record(connection, earlier)


def _check(known: tuple[Migration, ...], applied: Mapping[str, bytes]) -> None:
    if newer := sorted(applied.keys() - {each.number for each in known}):
        raise StartFailed(
            f"The database has migration {newer[-1]}, which this version of Potluck does not have:"
            " a newer version has upgraded the database.",
            "Start the newer version, or restore a backup from before the upgrade.",
        )
    for each in known:
        if applied.get(each.number, each.checksum) != each.checksum:
            raise StartFailed(
                f"Migration {each.number} in the database differs from the one in this version of"
                " Potluck.",
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
        "INSERT INTO applied_migrations (number, checksum) VALUES ($1, $2)",
        [(each.number, each.checksum) for each in migrations],
    )
