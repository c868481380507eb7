"""The product's `Database` on the sessions of a history, with faults between its statements."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

import asyncpg
from msgspec import Struct

from potluck.store.database import NOT_NOW, Connection, Database, unavailable
from verification.faults.sessions import Session, Sessions

T = TypeVar("T")


class Schedule(Struct, frozen=True):
    """Hooks around statements. Each may raise the errors of an unreachable database."""

    now: Callable[[], datetime]
    step: Callable[[], int]  # how many transactions are done
    before_transaction: Callable[[], Awaitable[None]]
    # Its argument ends the transaction, as PostgreSQL does if it is idle for too long.
    before_statement: Callable[[Callable[[], None]], Awaitable[None]]
    # Its argument is the step at which the transaction began.
    after_transaction: Callable[[int], None]


class HistoryConnection:
    """The methods of a connection that the store uses."""

    def __init__(self, sessions: Sessions, session: Session, schedule: Schedule) -> None:
        self._sessions = sessions
        self._session = session
        self._schedule = schedule
        self._raw = session.connection
        self._is_in_transaction = False
        self._is_lost = False

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        return await self._run(self._raw.fetch, statement, *arguments)

    async def fetchrow(self, statement: str, *arguments: Any) -> Any:
        return await self._run(self._raw.fetchrow, statement, *arguments)

    async def fetchval(self, statement: str, *arguments: Any) -> Any:
        return await self._run(self._raw.fetchval, statement, *arguments)

    async def execute(self, statement: str, *arguments: Any) -> str:
        return await self._run(self._raw.execute, statement, *arguments)

    async def fetchmany(self, statement: str, calls: Iterable[Sequence[Any]]) -> list[Any]:
        return await self._run(self._raw.fetchmany, statement, calls)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A savepoint: the store begins no transaction by itself."""
        await self.execute("SAVEPOINT inner_transaction")
        try:
            yield
        except BaseException:
            self._sessions.run_now(self._session, "ROLLBACK TO inner_transaction")
            raise
        await self.execute("RELEASE inner_transaction")

    def begin(self) -> None:
        now = self._schedule.now()
        setting = self._sessions.wall_clock_setting(now)
        self._sessions.run_now(
            self._session, f"BEGIN; SET LOCAL clock.now = '{now.isoformat()}'; {setting}"
        )
        self._is_in_transaction = True

    async def commit(self) -> None:
        await self._await_turn()
        self._end("COMMIT")

    def roll_back(self) -> None:
        if self._is_in_transaction:
            self._end("ROLLBACK")

    def _end(self, how: str) -> None:
        self._is_in_transaction = False
        self._sessions.run_now(self._session, how)

    async def _run(self, act: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
        if self._is_in_transaction or self._is_lost:
            await self._await_turn()
        self._set_clock()
        return await self._sessions.run(self._session, act(*arguments))

    async def _await_turn(self) -> None:
        await self._schedule.before_statement(self._lose)
        if self._is_lost:
            raise asyncpg.InterfaceError("the connection was closed in the middle of a transaction")

    def _lose(self) -> None:
        self._is_lost = True
        self.roll_back()

    def _set_clock(self) -> None:
        now = self._schedule.now()
        statement = self._sessions.wall_clock_setting(now)
        if not self._is_in_transaction:
            statement += f"SET clock.now = '{now.isoformat()}'"
        if statement:
            self._sessions.run_now(self._session, statement)


class HistoryDatabase(Database):
    """The database of one server instance, which waits for one of its connections as the product
    does: so the size of a pool does not decide how many sessions PostgreSQL needs."""

    def __init__(self, sessions: Sessions, schedule: Schedule, connections: int) -> None:
        self._sessions = sessions
        self._schedule = schedule
        self._shared = asyncio.Semaphore(connections)
        self._observer = None

    async def close(self) -> None:
        """The sessions belong to the history."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self._share(), self.reserved_transaction() as connection:
            yield connection

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        async with self._share(), self._connected() as connection:
            yield connection

    @asynccontextmanager
    async def reserved_transaction(self) -> AsyncIterator[Connection]:
        async with self._connected() as connection:
            connection.begin()
            yield connection
            await connection.commit()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[HistoryConnection]:
        await self._schedule.before_transaction()
        begun_at = self._schedule.step()
        with self._sessions.session() as session:
            connection = HistoryConnection(self._sessions, session, self._schedule)
            try:
                yield connection
            except NOT_NOW as error:
                raise unavailable() from error
            finally:
                connection.roll_back()
        self._schedule.after_transaction(begun_at)
