"""Sessions of PostgreSQL of which one works at a time, while virtual time stands still.

A statement is sent, and everything waits until it is answered or until another session blocks it.
Then the others go on, and whenever one of them has finished a statement, the blocked ones that are
free again are answered or blocked anew before anything else happens. So the history depends on the
seed, and not on how fast PostgreSQL is.
"""

import asyncio
import concurrent.futures
import os
import signal
import threading
from datetime import datetime
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import asyncpg

from potluck.store.database import prepare_connection
from verification.faults.chance import Chance

T = TypeVar("T")

# As the product's lock_timeout, in virtual time.
LOCK_SECONDS = 10.0
_LOOK_SECONDS = 0.001
_BLOCKERS = "SELECT pid, pg_blocking_pids(pid) AS blockers FROM unnest($1::int[]) AS pid"


class Session:
    """One connection."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.pid: int = connection.get_server_pid()


class _BlockedStatement:
    def __init__(self, answer: "concurrent.futures.Future[Any]") -> None:
        self.answer = answer
        self.is_answered = asyncio.Event()


class Sessions:
    """Those of one database. They outlive a history, and each history begins with all of them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._observer = self._connect()
        self._all: list[Session] = []
        self._idle: list[Session] = []
        self._blocked: dict[Session, _BlockedStatement] = {}
        self._chance = Chance(0)
        self._wall_microseconds = 0
        self.blocks = self.deadlocks = 0

    def close(self) -> None:
        for session in [self._observer, *self._all]:
            self._wait(session.connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def reset(self, chance: Chance) -> None:
        """A new history: the database is empty, and `chance` decides."""
        assert not self._blocked and len(self._idle) == len(self._all), "a session is still in use"
        self._chance = chance
        self._idle = list(reversed(self._all))
        self.fetch("SELECT clock.reset()")

    def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        """Looks at what is committed, without taking part."""
        return self.observe(self._observer.connection.fetch(statement, *arguments))

    def execute(self, statement: str) -> None:
        self.observe(self._observer.connection.execute(statement))

    def observe(self, work: Coroutine[Any, Any, T]) -> T:
        return self._wait(work)

    @property
    def observer(self) -> asyncpg.Connection:
        return self._observer.connection

    @property
    def _are_several_open(self) -> bool:
        return len(self._all) - len(self._idle) > 1

    def set_wall_clock(self, now: datetime) -> str:
        """The statement that makes it so late for all sessions; empty if it is."""
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

    async def run(self, session: Session, work: Coroutine[Any, Any, T]) -> T:
        """Its answer. Other work of the virtual loop goes on only if it is blocked."""
        with self._one_at_a_time():
            answer = self._send(work)
            is_answered = self._is_answered(session, answer)
        if not is_answered:
            await self._await_lock(session, answer)
        return answer.result()

    def finish(self, session: Session, statement: str) -> None:
        """For what ends a transaction, and is never blocked."""
        with self._one_at_a_time():
            self._wait(session.connection.execute(statement))

    async def _await_lock(self, session: Session, answer: "concurrent.futures.Future[T]") -> None:
        self.blocks += 1
        blocked = self._blocked[session] = _BlockedStatement(answer)
        self._end_deadlock(session)
        try:
            async with asyncio.timeout(LOCK_SECONDS):
                await blocked.is_answered.wait()
        except TimeoutError:
            self._cancel(session)  # its answer says so
        except asyncio.CancelledError:
            self._cancel(session)
            raise

    def _cancel(self, session: Session) -> None:
        blocked = self._blocked.pop(session, None)
        if blocked is not None:
            self.fetch("SELECT pg_cancel_backend($1)", session.pid)
            blocked.answer.exception()
            blocked.is_answered.set()
            self._answer_free()

    def _end_deadlock(self, session: Session) -> None:
        cycle = self._cycle(session)
        if cycle:
            self.deadlocks += 1
            self._cancel(self._chance.one_of(cycle))

    def _cycle(self, session: Session) -> list[Session]:
        """The sessions that wait for one another, in the order in which they were blocked."""
        blockers = self._blockers()
        ahead = {session.pid: self._reached(session.pid, blockers) for session in self._blocked}
        if session.pid not in ahead[session.pid]:
            return []
        return [
            other
            for other in self._blocked
            if other.pid in ahead[session.pid] and session.pid in ahead[other.pid]
        ]

    def _reached(self, pid: int, blockers: dict[int, list[int]]) -> set[int]:
        reached: set[int] = set()
        ahead = list(blockers.get(pid, ()))
        while ahead:
            blocker = ahead.pop()
            if blocker not in reached:
                reached.add(blocker)
                ahead += blockers.get(blocker, ())
        return reached

    def _blockers(self) -> dict[int, list[int]]:
        pids = [session.pid for session in self._blocked]
        return {row["pid"]: row["blockers"] for row in self.fetch(_BLOCKERS, pids)}

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """What it frees goes on only when it is done, one after the other.

        A single blocked session needs no halt: nothing races with it.
        """
        halted = list(self._blocked) if len(self._blocked) > 1 else []
        for session in halted:
            os.kill(session.pid, signal.SIGSTOP)
        try:
            yield
            self._answer_free(halted)
        finally:
            for session in halted:
                os.kill(session.pid, signal.SIGCONT)

    def _answer_free(self, halted: "list[Session] | tuple[()]" = ()) -> None:
        """Until all that remain blocked are so by a session that has to go on first."""
        while self._blocked:
            blockers = self._blockers()
            free = [session for session in self._blocked if not blockers[session.pid]]
            if not free:
                return
            session = self._chance.one_of(free)
            if session in halted:
                os.kill(session.pid, signal.SIGCONT)
            if self._is_answered(session, self._blocked[session].answer):
                self._blocked.pop(session).is_answered.set()
            elif session in halted:
                os.kill(session.pid, signal.SIGSTOP)

    def _is_answered(self, session: Session, answer: "concurrent.futures.Future[Any]") -> bool:
        """Waits until it is answered, or until another session blocks it."""
        while True:
            with suppress(TimeoutError):
                answer.exception(_LOOK_SECONDS if self._are_several_open else None)
                return True
            if self.fetch("SELECT 1 WHERE cardinality(pg_blocking_pids($1)) > 0", session.pid):
                return answer.done()

    def _add(self) -> Session:
        session = self._connect()
        self._all.append(session)
        return session

    def _connect(self) -> Session:
        return Session(self._wait(_connect(self._url)))

    def _send(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._send(work).result()


async def _connect(url: str) -> asyncpg.Connection:
    connection = await asyncpg.connect(
        url, statement_cache_size=1000, max_cached_statement_lifetime=0
    )
    await prepare_connection(connection)
    return connection
