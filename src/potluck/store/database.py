"""Connections and transactions.

A transaction is short, holds one connection, and never waits for the network. Database errors are
translated here: what PostgreSQL cannot answer now becomes `Unavailable`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Protocol, TypeAlias

import asyncpg

from potluck.model.error import Unavailable
from potluck.store.connector import CONNECT_SECONDS, DatabaseConnector
from potluck.wire import codec

Connection: TypeAlias = asyncpg.Connection

# Errors a client cannot fix: the database is away, starting, full or out of connections.
NOT_NOW = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that died during a response
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,  # this process was stopped during a transaction
    asyncpg.SerializationError,
    asyncpg.ReadOnlySQLTransactionError,  # a primary that became a standby
    asyncpg.InvalidCachedStatementError,  # a newer server has just added columns; works next time
    asyncpg.OutdatedSchemaCacheError,
)
# For cut connections. PgBouncer has the same for the connections of its own.
_TCP_TIMEOUTS = {
    "tcp_user_timeout": "10s",
    "tcp_keepalives_idle": "10s",
    "tcp_keepalives_interval": "3s",
    "tcp_keepalives_count": "3",
}
# What is looked up by its key is read by the index, also where a table is small or was never
# analysed: with the default the planner reads whole tables of up to some hundred pages instead.
_PLANNING = {"random_page_cost": "1.1"}
# Statements then have no name, and are sent again each time.
_NO_STATEMENT_CACHE = {"statement_cache_size": 0}
# Connections for the leader's row and for health checks.
_RESERVED = 2
# Duties write every second, so a disk that is still full is noticed again before this time ends.
_DISK_FULL_SECONDS = 10.0


class DatabaseObserver(Protocol):
    """Learns how long statements and waits for a connection take."""

    def observe_statement(self, text: str, seconds: float) -> None: ...

    def observe_wait(self, seconds: float) -> None: ...


class Database:
    """A pool of connections to one PostgreSQL.

    Some are reserved, for the leader's row and for health checks: requests that wait for each
    other may occupy all others for longer than a term lasts.
    """

    def __init__(
        self,
        connections: "asyncpg.Pool[Any]",
        transaction_timeouts: str,
        observer: DatabaseObserver | None = None,
    ) -> None:
        self._pool = connections
        self._transaction_timeouts = transaction_timeouts
        self._observer = observer
        self._shared = asyncio.Semaphore(connections.get_max_size() - _RESERVED)
        self._disk_full_until = 0.0

    @classmethod
    async def connect(
        cls,
        url: str,
        max_connections: int = 16,
        idle_transaction_seconds: float = 3.0,
        is_pooled: bool = False,
        observer: DatabaseObserver | None = None,
    ) -> "Database":
        """`is_pooled`: the address is that of PgBouncer in transaction mode.

        Then a session may be another one after each transaction. So nothing is prepared, only what
        PgBouncer keeps for its clients is sent at the start, and timeouts are set in transactions.
        """
        connector = DatabaseConnector(url)
        timeouts = _timeouts(idle_transaction_seconds)
        at_start = {} if is_pooled else timeouts | _TCP_TIMEOUTS | _PLANNING
        try:
            connections = await asyncpg.create_pool(
                connect=lambda _, **options: connector.connect(**options),
                min_size=0,
                max_size=max_connections + _RESERVED,
                command_timeout=30,
                init=prepare_connection,
                connection_class=_connection_class(observer),
                reset=_skip_reset,
                server_settings={"application_name": "potluck", "timezone": "UTC", **at_start},
                **(_NO_STATEMENT_CACHE if is_pooled else {}),
            )
        except NOT_NOW as error:
            raise unavailable() from error
        return cls(connections, _local(timeouts | _PLANNING) if is_pooled else "", observer)

    async def close(self) -> None:
        try:
            async with asyncio.timeout(5):
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    def terminate(self) -> None:
        """Cuts all connections. Whatever waits for PostgreSQL, or asks it from now on, fails."""
        self._pool.terminate()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self._share(), self.reserved_transaction() as connection:
            yield connection

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        """For one statement, which is its own transaction, with a third of the round trips. For
        several only if each may see a different snapshot and none needs a rollback.
        """
        async with self._share(), self._connection() as connection:
            yield connection

    @asynccontextmanager
    async def reserved_transaction(self) -> AsyncIterator[Connection]:
        """On the reserved connection; only for renewing the leader's row."""
        async with self._connection() as connection, connection.transaction():
            if self._transaction_timeouts:
                await connection.execute(self._transaction_timeouts)
            yield connection

    @asynccontextmanager
    async def reserved_statement(self) -> AsyncIterator[Connection]:
        """On a reserved connection; only for health checks."""
        async with self._connection() as connection:
            yield connection

    @property
    def size(self) -> int:
        """The maximum number of connections."""
        return int(self._pool.get_max_size())

    @property
    def used(self) -> int:
        """The number of connections in use."""
        return int(self._pool.get_size() - self._pool.get_idle_size())

    @property
    def is_disk_full(self) -> bool:
        """Whether PostgreSQL has just refused to write because its disk is full."""
        return time.monotonic() < self._disk_full_until

    @asynccontextmanager
    async def _share(self) -> AsyncIterator[None]:
        if self._shared.locked():
            await self._wait_for_slot()
        else:
            await self._shared.acquire()
        try:
            yield
        finally:
            self._shared.release()

    async def _wait_for_slot(self) -> None:
        began = time.monotonic()
        try:
            # In Python 3.11 wait_for may lose a cancellation, and a duty would not end.
            async with asyncio.timeout(10):
                await self._shared.acquire()
        except TimeoutError as error:
            raise unavailable() from error
        finally:
            if self._observer is not None:
                self._observer.observe_wait(time.monotonic() - began)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        try:
            async with self._pool.acquire(timeout=CONNECT_SECONDS) as connection:
                yield connection
        except asyncpg.DiskFullError as error:
            self._disk_full_until = time.monotonic() + _DISK_FULL_SECONDS
            raise _disk_full() from error
        except NOT_NOW as error:
            if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
                await self._pool.expire_connections()  # the next ones find the new primary
            raise unavailable() from error


_OBSERVED = ("execute", "executemany", "fetch", "fetchmany", "fetchrow", "fetchval")


def _connection_class(observer: DatabaseObserver | None) -> type[Connection]:
    """One whose statements are timed, if there is an observer.

    asyncpg's own query loggers cost several times as much. The arguments are not passed on: some
    are secrets.
    """
    plain: type[Connection] = asyncpg.Connection
    if observer is None:
        return plain

    def timed(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        observe, clock = observer.observe_statement, time.perf_counter

        @wraps(method)
        async def run(self: Connection, query: str, *arguments: Any, **options: Any) -> Any:
            began = clock()
            try:
                return await method(self, query, *arguments, **options)
            finally:
                observe(query, clock() - began)

        return run

    methods = {name: timed(getattr(plain, name)) for name in _OBSERVED}
    return type("ObservedConnection", (plain,), {"__slots__": (), **methods})


def unavailable() -> Unavailable:
    return Unavailable("The database is not answering.", "Try again.", 1.0)


def _disk_full() -> Unavailable:
    return Unavailable(
        "The disk of the server's database is full.",
        "Try again later; the server's operator has to free some space.",
        10.0,
    )


def _timeouts(idle_transaction_seconds: float) -> dict[str, str]:
    """Makes PostgreSQL drop the locks of a stopped process or a cut connection.

    Such a process keeps its connections, and with them every lock of an open transaction: for a
    leader, the row that the next leader must take.
    """
    return {
        "idle_in_transaction_session_timeout": str(max(1, round(idle_transaction_seconds * 1000))),
        "lock_timeout": "10s",
    }


def _local(settings: dict[str, str]) -> str:
    """Sets them until the end of a transaction.

    Not by a query: the isolation level could not be set after one.
    """
    return "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in settings.items())


async def _skip_reset(_: Connection) -> None:
    """No session state outlives a transaction, so a returned connection needs no reset.

    The driver's default is a round trip after each transaction.
    """


async def prepare_connection(connection: Connection) -> None:
    """JSON columns hold our structs, in the same encoding as the wire."""
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + codec.encode_json(value),
        decoder=lambda data: bytes(data[1:]),
        format="binary",
    )
