"""PostgreSQL sessions that run one statement at a time, while virtual time stands still.

A statement is sent, and everything waits until it completes or another session blocks it. Then the
others continue; whenever one of them completes a statement, the unblocked sessions complete or
block again before anything else happens. So a history depends on the seed, and not on the speed of
PostgreSQL.
"""

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import asyncpg

from potluck.store.database import prepare_connection
from verification.faults.chance import Chance
from verification.faults.lock_cycle import find_cycle

T = TypeVar("T")
Work: TypeAlias = Coroutine[Any, Any, T]

# As the product's lock_timeout, in virtual time.
LOCK_SECONDS = 10.0
_LOOK_SECONDS = 0.002
_BLOCKERS = "SELECT pid, pg_blocking_pids(pid) AS blockers FROM unnest($1::int[]) AS pid"


class Session:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.pid: int = connection.get_server_pid()

    def halt(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class _BlockedStatement:
    def __init__(self, answer: "asyncio.Task[Any]") -> None:
        self.answer = answer
        self.is_answered = asyncio.Event()


class Sessions:
    """The sessions of one database, which all histories reuse."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._observer = self._connect()
        self._all: list[Session] = []
        self._idle: list[Session] = []
        self._blocked: dict[Session, _BlockedStatement] = {}
        self._chance = Chance(0)
        self._wall_microseconds = 0

    def close(self) -> None:
        for session in [self._observer, *self._all]:
            self.complete(session.connection.close())
        self._loop.close()

    def reset(self, chance: Chance) -> None:
        """Starts a new history on a clean database, with choices from `chance`."""
        assert not self._blocked and len(self._idle) == len(self._all), "a session is still in use"
        self._chance = chance
        self._idle = list(reversed(self._all))
        self._wall_microseconds = 0
        self.fetch("SELECT clock.reset()")

    @property
    def observer(self) -> asyncpg.Connection:
        """Reads committed data outside of the history."""
        return self._observer.connection

    def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        return self.complete(self.observer.fetch(statement, *arguments))

    def complete(self, work: Work[T]) -> T:
        """Runs work on the connections' event loop, from within the virtual loop."""
        virtual = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return self._loop.run_until_complete(work)
        finally:
            asyncio._set_running_loop(virtual)

    def wall_clock_setting(self, now: datetime) -> str:
        """The statement that sets the clock of all sessions; empty if it is already set."""
        microseconds = round(now.timestamp() * 1_000_000)
        if microseconds == self._wall_microseconds:
            return ""
        self._wall_microseconds = microseconds
        return f"SELECT pg_catalog.setval('clock.wall', {microseconds});"

    @contextmanager
    def session(self) -> Iterator[Session]:
        session = self._idle.pop() if self._idle else self._add()
        try:
            yield session
        finally:
            self._idle.append(session)

    async def run(self, session: Session, work: Work[T]) -> T:
        """The result of a statement. Other work continues only if the statement is blocked."""
        answer = self._loop.create_task(work)
        with self._others_halted():
            if not self._is_answered(session, answer):
                self._chance.note("blocked")
                self._blocked[session] = _BlockedStatement(answer)
        if session in self._blocked:
            self._end_deadlock(session)
        if session in self._blocked:
            await self._await_lock(session)
        return answer.result()

    def run_now(self, session: Session, statement: str) -> None:
        """Runs a statement that is never blocked, such as the begin or end of a transaction."""
        with self._others_halted():
            self.complete(session.connection.execute(statement))

    async def _await_lock(self, session: Session) -> None:
        try:
            async with asyncio.timeout(LOCK_SECONDS):
                await self._blocked[session].is_answered.wait()
        except TimeoutError:
            self._cancel(session)  # its result raises
        except asyncio.CancelledError:
            self._cancel(session)
            raise

    def _cancel(self, session: Session) -> None:
        blocked = self._blocked.pop(session, None)
        if blocked is not None:
            with self._others_halted():
                self.fetch("SELECT pg_cancel_backend($1)", session.pid)
                self.complete(asyncio.wait([blocked.answer]))
                blocked.answer.exception()  # asyncio warns of exceptions that are never retrieved
            blocked.is_answered.set()

    def _end_deadlock(self, session: Session) -> None:
        blockers = self._blockers()
        cycle = find_cycle(session.pid, blockers)
        if cycle:
            self._chance.note("deadlock")
            victims = [other for other in self._blocked if other.pid in cycle]
            self._cancel(self._chance.one_of(victims))

    def _blockers(self) -> dict[int, list[int]]:
        pids = [session.pid for session in self._blocked]
        return {row["pid"]: row["blockers"] for row in self.fetch(_BLOCKERS, pids)}

    @contextmanager
    def _others_halted(self) -> Iterator[None]:
        """Stops blocked sessions, so that those the statement unblocks continue one by one.

        A single blocked session is not stopped: nothing races with it.
        """
        halted = list(self._blocked) if len(self._blocked) > 1 else []
        for session in halted:
            session.halt()
        try:
            yield
        finally:
            self._answer_free(halted)
            for session in halted:
                session.resume()

    def _answer_free(self, halted: list[Session]) -> None:
        """Completes unblocked statements until each remaining one waits for another session."""
        while self._blocked:
            blockers = self._blockers()
            free = [session for session in self._blocked if not blockers[session.pid]]
            if not free:
                return
            session = self._chance.one_of(free)
            if session in halted:
                session.resume()
            if self._is_answered(session, self._blocked[session].answer):
                self._blocked.pop(session).is_answered.set()
            elif session in halted:
                session.halt()

    def _is_answered(self, session: Session, answer: "asyncio.Task[Any]") -> bool:
        """Waits until the statement completes or another session blocks it."""
        are_several_open = len(self._all) - len(self._idle) > 1
        while True:
            self.complete(
                asyncio.wait([answer], timeout=_LOOK_SECONDS if are_several_open else None)
            )
            if answer.done():
                return True
            if self.fetch("SELECT 1 WHERE cardinality(pg_blocking_pids($1)) > 0", session.pid):
                return answer.done()

    def _add(self) -> Session:
        session = self._connect()
        self._all.append(session)
        return session

    def _connect(self) -> Session:
        return Session(self.complete(_connect(self._url)))


@contextmanager
def open_sessions(url: str) -> Iterator[Sessions]:
    sessions = Sessions(url)
    try:
        yield sessions
    finally:
        sessions.close()


async def _connect(url: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(
        url, statement_cache_size=1000, max_cached_statement_lifetime=0
    )
    await prepare_connection(connection)
    return connection
