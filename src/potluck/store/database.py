"""Connections, transactions, migrations and the named queries.

A transaction is short and holds one connection; nobody waits for the network inside of one. Foreign
errors of the database become ours here: what PostgreSQL can not answer now is `Unavailable`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection as SyncConnection
from sqlalchemy import pool
from sqlalchemy.ext.asyncio import create_async_engine

from potluck.model.error import Unavailable
from potluck.wire import codec

Connection: TypeAlias = asyncpg.Connection

_MIGRATIONS = Path(__file__).parent / "migrations"
# Any constant will do, as long as every instance uses the same.
_MIGRATION_LOCK = 7_046_029_254_386_353_131

# What a client can do nothing about: the database is away, starting, full or out of connections.
_NOT_NOW = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


class Database:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, connections: "asyncpg.Pool[Any]") -> None:
        self._pool = connections

    @classmethod
    async def connect(cls, url: str, max_connections: int = 16) -> "Database":
        try:
            connections = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=max_connections,
                command_timeout=30,
                init=_prepare_connection,
                server_settings={"application_name": "potluck", "timezone": "UTC"},
            )
        except _NOT_NOW as error:
            raise _unavailable() from error
        return cls(connections)

    async def close(self) -> None:
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        try:
            async with self._pool.acquire(timeout=10) as connection, connection.transaction():
                yield connection
        except _NOT_NOW as error:
            raise _unavailable() from error


def _unavailable() -> Unavailable:
    return Unavailable("The database does not answer just now.", "Try again.", 1.0)


async def _prepare_connection(connection: Connection) -> None:
    """JSON columns carry our own structs, encoded by the same codec as the wire."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + codec.encode_json(value),
        decoder=lambda data: bytes(data[1:]),
        format="binary",
    )


async def migrate(url: str) -> None:
    """Brings the schema to this version. Safe when several instances start at once."""
    engine = create_async_engine(
        url.replace("postgresql://", "postgresql+asyncpg://", 1), poolclass=pool.NullPool
    )
    try:
        async with engine.connect() as connection:
            await connection.run_sync(_upgrade)
    finally:
        await engine.dispose()


def _upgrade(connection: SyncConnection) -> None:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    connection.exec_driver_sql(f"SELECT pg_advisory_lock({_MIGRATION_LOCK})")
    connection.commit()
    command.upgrade(config, "head")
    connection.commit()
    connection.exec_driver_sql(f"SELECT pg_advisory_unlock({_MIGRATION_LOCK})")
    connection.commit()
