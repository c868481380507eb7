"""Migrates the schema of a database to this version.

Alembic and SQLAlchemy take a second to import, so they are loaded only if there is a migration to
run.
"""

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from potluck.model.error import BadSettings, Unavailable
from potluck.store.database import NOT_NOW, unavailable

if TYPE_CHECKING:
    from sqlalchemy import Connection as SyncConnection

OLDEST_POSTGRES = 15

_MIGRATIONS = Path(__file__).parent / "migrations"
# Any constant, the same on every instance.
_LOCK = 7_046_029_254_386_353_131

# An invalid address, an untrusted certificate, a socket of another user: waiting changes nothing.
_REFUSED = (ValueError, ssl.SSLError, PermissionError, asyncpg.InterfaceError)


async def migrate(url: str) -> None:
    """Safe when several instances start at once."""
    if await _version(url) != newest_version():
        await _upgrade(url)


async def check_address(url: str) -> None:
    """Raises Unavailable if the configured database is away or starting, and BadSettings if it
    refuses this address or is too old."""
    try:
        connection = await asyncpg.connect(url, timeout=10)
    except _REFUSED as error:
        raise _bad_address(f"cannot be used: {error}") from error
    except NOT_NOW as error:
        reason = str(error) or type(error).__name__
        raise Unavailable(
            f"The PostgreSQL in --database-url does not answer: {reason}",
            "Make sure that it runs, and that host and port are right.",
        ) from error
    except asyncpg.PostgresError as error:
        raise _bad_address(f"refuses the connection: {error}") from error
    version = connection.get_server_version()
    await connection.close()
    if version.major < OLDEST_POSTGRES:
        raise _bad_address(f"is version {version.major}; Potluck needs {OLDEST_POSTGRES} or later")


def _bad_address(why: str) -> BadSettings:
    return BadSettings(
        f"The PostgreSQL in --database-url {why}.",
        "Use the form postgresql://user:password@host:5432/potluck, and make sure that it runs.",
    )


def newest_version() -> str:
    """Migrations are numbered, so the last file is the newest."""
    names = sorted(path.name for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))
    return names[-1].split("_", 1)[0]


async def _version(url: str) -> str | None:
    try:
        connection = await asyncpg.connect(url)
    except NOT_NOW as error:
        raise unavailable() from error
    try:
        if await connection.fetchval("SELECT to_regclass('schema_version')") is None:
            return None
        version: str | None = await connection.fetchval("SELECT version_num FROM schema_version")
        return version
    finally:
        await connection.close()


async def _upgrade(url: str) -> None:
    from sqlalchemy import pool
    from sqlalchemy.ext.asyncio import create_async_engine

    address = url.replace("postgresql://", "postgresql+asyncpg://", 1)
    engine = create_async_engine(address, poolclass=pool.NullPool)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(_run_migrations)
    finally:
        await engine.dispose()


def _run_migrations(connection: "SyncConnection") -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    connection.exec_driver_sql(f"SELECT pg_advisory_lock({_LOCK})")
    connection.commit()
    command.upgrade(config, "head")
    connection.commit()
    connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_LOCK})")
    connection.commit()
