"""The model in the shape of `store.database`: transactions, and connections that answer."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

from potluck.simulate.store import (  # noqa: F401  each registers its statements
    accounts,
    assign,
    attempts,
    availability,
    bindings,
    changes,
    events,
    feed,
    items,
    leases,
    ledger,
    nodes,
    picture,
    recent,
    statements,
    tasks,
    wishes,
)
from potluck.simulate.store.data import Data
from potluck.simulate.store.statements import Record
from potluck.store.database import Connection, Database


class ModelConnection:
    """What the store's verbs ask of a connection. Nothing here ever waits."""

    def __init__(self, data: Data) -> None:
        self._data = data

    async def fetch(self, statement: str, *arguments: Any) -> list[Record]:
        return statements.answer(self._data, statement, arguments)

    async def fetchrow(self, statement: str, *arguments: Any) -> Record | None:
        rows = statements.answer(self._data, statement, arguments)
        return rows[0] if rows else None

    async def fetchval(self, statement: str, *arguments: Any) -> Any:
        rows = statements.answer(self._data, statement, arguments)
        return next(iter(rows[0].values()), None) if rows else None

    async def execute(self, statement: str, *arguments: Any) -> None:
        statements.answer(self._data, statement, arguments)

    async def fetchmany(self, statement: str, calls: Iterable[Sequence[Any]]) -> list[Record]:
        return [
            row
            for arguments in calls
            for row in statements.answer(self._data, statement, tuple(arguments))
        ]

    def transaction(self) -> "Savepoint":
        return Savepoint(self._data.savepoint())


class Savepoint:
    def __init__(self, inner: AbstractContextManager[None]) -> None:
        self._inner = inner

    async def __aenter__(self) -> None:
        self._inner.__enter__()

    async def __aexit__(self, *raised: Any) -> bool | None:
        return self._inner.__exit__(*raised)


class ModelDatabase(Database):
    """`turn` is waited for before each transaction: whoever drives decides who is next, or raises
    what a database that is away would. `done` sees what each one wrote.
    """

    def __init__(
        self,
        data: Data,
        turn: Callable[[], Awaitable[None]] | None = None,
        done: Callable[[], None] | None = None,
    ) -> None:
        self.data = data
        self._turn = turn
        self._done = done

    async def close(self) -> None:
        """There is nothing to close."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        if self._turn is not None:
            await self._turn()
        with self.data.transaction():
            yield ModelConnection(self.data)
        if self._done is not None:
            self._done()

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Connection]:
        async with self.transaction() as connection:
            yield connection

    @asynccontextmanager
    async def kept_transaction(self) -> AsyncIterator[Connection]:
        async with self.transaction() as connection:
            yield connection
