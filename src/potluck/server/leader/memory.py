"""The leader's memory of the queue and the pool: loaded in slices, then kept up by what changes.

What waits at the head of each account's queue is loaded first, so that a new leader places tasks
within seconds; the rest comes behind. Reading is sliced, so that requests have their turn.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from potluck.decide.reservations.duration_estimate import Durations
from potluck.decide.reservations.reserve import ReserveSettings
from potluck.decide.scheduler import Scheduler
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.server.leader.scheduler_input import UnconfirmedIds, SchedulerInput
from potluck.server.policies import order_by_name, placement_by_name
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.scheduler import scheduler_feed
from potluck.store.scheduler.interning import Shapes
from potluck.store.scheduler.scheduler_feed import FeedPosition, TaskNow

# For a start, of all accounts together.
_MOST_HEADS = 20_000
_MOST_HEADS_EACH = 1_000
# That come with the news, of which there are none or few most of the time.
_FIRST_TASKS = 100
# A node comes with its devices and all that runs on it.
_NODES_AT_ONCE = 100

T = TypeVar("T")


class LeaderMemory:
    def __init__(self, services: Services, reserve: ReserveSettings | None = None) -> None:
        settings = services.settings
        order = order_by_name(settings.order_policy)
        placement = placement_by_name(settings.placement_policy)
        self.known = SchedulerInput(Scheduler(order, placement, reserve))
        self.position = FeedPosition("", 0.0)
        self.has_decided = False  # whether one that others wait for had ended, when last asked
        self.has_begun = False
        self.is_loaded = False
        shapes, durations = Shapes(), Durations()
        self.tasks = scheduler_feed.TaskFeed(shapes, durations)
        self.nodes = scheduler_feed.Nodes(shapes, durations)
        self._services = services
        self._behind = ""  # up to where the queue has been loaded

    @property
    def now(self) -> float:
        """The database's clock, when it was last asked."""
        return self.position.now

    async def begin(self) -> None:
        """Loads who can pay, all that is free, and the head of each account's queue."""
        async with self._services.database.statement() as connection:
            self.position = await scheduler_feed.position(connection)
        async for account_ids in self.pages(scheduler_feed.all_accounts, self._page):
            await self.read_accounts(account_ids)
        async for node_ids in self.pages(scheduler_feed.online_nodes, _NODES_AT_ONCE):
            await self.read_nodes(node_ids)
        async with self._services.database.statement() as connection:
            waiting = await scheduler_feed.waiting_accounts(connection)
        each = max(1, min(_MOST_HEADS_EACH, _MOST_HEADS // max(1, len(waiting))))
        for some in _slices(waiting, max(1, self._page // each)):
            async with self._services.database.statement() as connection:
                heads = await self.tasks.heads(connection, some, each)
            await self._put_tasks(heads)
        self.has_begun = True

    async def load_more(self, seconds: float = 0.0) -> None:
        """The next pages of all that waits, for about so long; one at least.

        While one page is taken in the next is on its way. All that was read is taken in before
        anything else happens: later it might no longer be true.
        """
        until = asyncio.get_running_loop().time() + seconds
        coming: Awaitable[list[TaskNow]] | None = self._next_page()
        while coming is not None:
            found = await coming
            self._behind = found[-1].id if found else self._behind
            self.is_loaded = len(found) < self._page
            is_over = self.is_loaded or asyncio.get_running_loop().time() >= until
            coming = None if is_over else asyncio.create_task(self._next_page())
            await asyncio.sleep(0)  # so that the question for it goes out
            await self._put_tasks(found)

    async def _next_page(self) -> list[TaskNow]:
        async with self._services.database.statement() as connection:
            return await self.tasks.waiting(connection, self._behind, self._page)

    async def catch_up(self) -> None:
        """Takes in what has become visible since the last time, and whose time has come."""
        since, self.known.doubts, doubts = self.position, UnconfirmedIds(), self.known.doubts
        try:
            await self._catch_up(since, doubts)
        except BaseException:
            self.position = since  # what was not taken in is taken in the next time
            self.known.doubts = doubts
            raise

    async def _catch_up(self, since: FeedPosition, doubts: UnconfirmedIds) -> None:
        async with self._services.database.statement() as connection:
            news = await self.tasks.news(connection, since, min(_FIRST_TASKS, self._page))
        self.position, self.has_decided = news.position, news.has_decided
        doubts.tasks.update(self.known.due(self.now))
        await self.read_accounts(news.account_ids)
        await self.read_nodes(sorted(doubts.nodes.union(news.node_ids)))
        await self._put_tasks(news.tasks)
        behind = news.behind
        while behind is not None:
            async with self._services.database.statement() as connection:
                tasks, behind = await self.tasks.changed(connection, since, behind, self._page)
            await self._put_tasks(tasks)
        await self.read_tasks(sorted(doubts.tasks))

    async def read_accounts(self, ids: Sequence[AccountId]) -> None:
        quota = self._services.settings.quota_running_devices
        for some in _slices(ids, self._page):
            async with self._services.database.statement() as connection:
                found = await scheduler_feed.accounts(connection, some, quota)
            self.known.put_accounts(found)

    async def read_nodes(self, ids: Sequence[NodeId]) -> None:
        for some in _slices(ids, _NODES_AT_ONCE):
            async with self._services.database.statement() as connection:
                found = await self.nodes.of_ids(connection, some)
            self.known.put_nodes(found, self.now)

    async def read_tasks(self, ids: Sequence[TaskId]) -> None:
        for some in _slices(ids, self._page):
            async with self._services.database.statement() as connection:
                found = await self.tasks.of_ids(connection, some)
            await self._put_tasks(found)

    async def _put_tasks(self, found: Sequence[TaskNow]) -> None:
        self.known.put_tasks(found, self.now)
        arrays = [each.id for each in found if each.task is not None and each.task.pending]
        if arrays:
            async with self._services.database.statement() as connection:
                self.known.put_paces(await scheduler_feed.paces(connection, arrays))
        await asyncio.sleep(0)

    async def pages(
        self, read: Callable[[Connection, str, int], Awaitable[list[T]]], most: int
    ) -> AsyncIterator[list[T]]:
        """Ids, page by page, in their order."""
        behind = ""
        while True:
            async with self._services.database.statement() as connection:
                page = await read(connection, behind, most)
            if page:
                yield page
            if len(page) < most:
                return
            behind = str(page[-1])

    @property
    def _page(self) -> int:
        return self._services.settings.most_tasks_per_page


def _slices(values: Sequence[T], most: int) -> list[Sequence[T]]:
    return [values[start : start + most] for start in range(0, len(values), most)]
