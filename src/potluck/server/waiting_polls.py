"""Idle nodes: their polls are checked together, and their calls are recorded together.

All polls that wait on this instance are checked at intervals, since wake-ups may be lost.

One statement for all of them: what a waiting node costs PostgreSQL does not grow with how long it
waits. The check runs while polls wait, and needs no loop of its own.

Calls of idle nodes that arrive within a moment share one statement. The first one after a pause
does not wait, so a small pool notices nothing; in a large one nothing waits for an idle node.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog

from potluck.live.interface import Listener
from potluck.model.error import PotluckError
from potluck.model.ids import AttemptId, NodeId
from potluck.store.attempts import leases
from potluck.store.attempts.leases import HeartbeatResult, IdleCall
from potluck.store.database import Database

# Reads the live attempts of these nodes; a node without any may be missing.
ReadLive = Callable[[Sequence[NodeId]], Awaitable[Mapping[NodeId, frozenset[AttemptId]]]]

_NOTHING: frozenset[AttemptId] = frozenset()
_MAX_IDLE_NODES = 20_000

log = structlog.get_logger()


class WaitingPoll:
    def __init__(self, node_id: NodeId, live: frozenset[AttemptId], listener: Listener) -> None:
        self.node_id = node_id
        self.live = live  # the live attempts of its node, as the poll knows them
        self.has_changed = False  # a check found others
        self._listener = listener

    def compare(self, live: frozenset[AttemptId]) -> None:
        if live != self.live:
            self.has_changed = True
            self._listener.wake()


class WaitingPolls:
    def __init__(self) -> None:
        self._polls: dict[WaitingPoll, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.Task[None] | None = None
        # Nodes that have just registered here, or whose last poll here waited in vain.
        self._idle: OrderedDict[NodeId, None] = OrderedDict()

    @contextmanager
    def waiting(self, poll: WaitingPoll, interval_seconds: float, read: ReadLive) -> Iterator[None]:
        """Within the block the poll is checked with all others, every `interval_seconds`."""
        self._polls[poll] = None
        if self._timer is None and self._check is None:
            self._start_timer(interval_seconds, read)
        try:
            yield
        finally:
            del self._polls[poll]

    def note_idle(self, node_id: NodeId) -> None:
        self._idle[node_id] = None
        if len(self._idle) > _MAX_IDLE_NODES:
            self._idle.popitem(last=False)

    def take_idle(self, node_id: NodeId) -> bool:
        """Whether the node probably has nothing to fetch; asked once for each poll."""
        if node_id not in self._idle:
            return False
        del self._idle[node_id]
        return True

    def _start_timer(self, interval_seconds: float, read: ReadLive) -> None:
        def check() -> None:
            self._timer = None
            if self._polls:  # otherwise the next poll starts it
                self._check = loop.create_task(self._check_guarded(interval_seconds, read))

        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(interval_seconds, check)

    async def _check_guarded(self, interval_seconds: float, read: ReadLive) -> None:
        """Without PostgreSQL the polls wait on, and the next check is the next attempt."""
        try:
            await self._check_once(read)
        except PotluckError as error:
            log.info("cannot check the waiting polls", error=error.code)
        finally:
            self._check = None
            if self._polls:
                self._start_timer(interval_seconds, read)

    async def _check_once(self, read: ReadLive) -> None:
        polls = list(self._polls)
        live = await read(list({poll.node_id for poll in polls}))
        for poll in polls:
            # A poll that ended meanwhile, or has just read for itself, knows better.
            if poll in self._polls:
                poll.compare(live.get(poll.node_id, _NOTHING))


# From the start of one statement to the next.
_INTERVAL_SECONDS = 0.1
# Of one statement.
_MAX_CALLS = 1_000


class IdleCalls:
    def __init__(self) -> None:
        self._waiting: list[tuple[IdleCall, asyncio.Future[HeartbeatResult | None]]] = []
        self._next_at = 0.0
        self._running: asyncio.Task[None] | None = None

    async def record(self, database: Database, call: IdleCall) -> HeartbeatResult | None:
        """None if the node is not plainly idle, or cannot be recorded now: it is then unchanged."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((call, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run(database))
        result: HeartbeatResult | None = await future
        return result

    async def _run(self, database: Database) -> None:
        clock = asyncio.get_running_loop()
        try:
            while self._waiting:
                if (pause_seconds := self._next_at - clock.time()) > 0:
                    await asyncio.sleep(pause_seconds)
                self._next_at = clock.time() + _INTERVAL_SECONDS
                await self._record_waiting(database)
        finally:
            self._running = None

    async def _record_waiting(self, database: Database) -> None:
        batch, self._waiting = self._waiting[:_MAX_CALLS], self._waiting[_MAX_CALLS:]
        results = {}
        try:
            async with database.statement() as connection:
                results = await leases.record_idle(connection, [call for call, _ in batch])
        except PotluckError:
            pass  # each call meets the error again, alone
        finally:
            for call, future in batch:
                if not future.done():
                    future.set_result(results.get(call.node_id))
