"""The leader's memory of the queue and the pool: loaded in slices, then updated incrementally.

The head of each account's queue is loaded first, so that a new leader places tasks within seconds;
the rest follows. Reads are sliced, so that requests get their turn.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from potluck.decide.reservations.duration_estimate import Durations
from potluck.decide.reservations.reserve import ReserveSettings
from potluck.decide.scheduler import Scheduler
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.server.leader.planner import Planner, plan_inline
from potluck.server.leader.scheduler_input import SchedulerInput, UnconfirmedIds
from potluck.server.policies import order_by_name, placement_by_name
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.scheduler import node_feed, scheduler_feed
from potluck.store.scheduler.interning import Interner
from potluck.store.scheduler.scheduler_feed import FeedPosition, TaskSnapshot

# Loaded at the start, over all accounts.
_MAX_HEADS = 20_000
_MAX_HEADS_PER_ACCOUNT = 1_000
# Tasks read together with the change feed; usually there are few.
_FIRST_TASKS = 100
# Each node includes its devices and running attempts.
_NODES_PER_READ = 100

T = TypeVar("T")


class LeaderMemory:
    def __init__(
        self,
        services: Services,
        reserve: ReserveSettings | None = None,
        planner: Planner = plan_inline,
    ) -> None:
        settings = services.settings
        order = order_by_name(settings.order_policy)
        placement = placement_by_name(settings.placement_policy)
        self.known = SchedulerInput(
            Scheduler(order, placement, reserve, settle_times=settings.settle_times)
        )
        self.planner = planner  # for every use of `known` that is more than a lookup
        self.position = FeedPosition("", 0.0)
        self.has_decided = False  # whether a dependency had ended at the last read
        self.has_begun = False
        self.is_loaded = False
        shapes, durations = Interner(), Durations()
        self.tasks = scheduler_feed.TaskFeed(shapes, durations)
        self.nodes = node_feed.NodeFeed(shapes, durations)
        self._services = services
        self._behind = ""  # id up to which the queue is loaded

    @property
    def now(self) -> float:
        """The database's clock at the last read."""
        return self.position.now

    async def begin(self) -> None:
        """Loads the accounts, the free capacity, and the head of each account's queue."""
        async with self._services.database.statement() as connection:
            self.position = await scheduler_feed.read_position(connection)
        async for page in self.pages(scheduler_feed.all_accounts, self._page):
            await self.read_accounts(page)
        async for node_ids in self.pages(node_feed.online_nodes, _NODES_PER_READ):
            await self.read_nodes(node_ids)
        async with self._services.database.statement() as connection:
            waiting = await scheduler_feed.waiting_accounts(connection)
        per_account = max(1, min(_MAX_HEADS_PER_ACCOUNT, _MAX_HEADS // max(1, len(waiting))))
        for account_ids in _slices(waiting, max(1, self._page // per_account)):
            async with self._services.database.statement() as connection:
                heads = await self.tasks.heads(connection, account_ids, per_account)
            await self._put_tasks(heads)
        self.has_begun = True

    async def load_more(self, seconds: float = 0.0) -> None:
        """Loads further pages of the queue for about this long; at least one.

        The next page is read while one is processed. All pages are processed before this returns:
        later they might be outdated.
        """
        until = asyncio.get_running_loop().time() + seconds
        coming: Awaitable[list[TaskSnapshot]] | None = self._next_page()
        while coming is not None:
            page = await coming
            self._behind = page[-1].id if page else self._behind
            self.is_loaded = len(page) < self._page
            is_done = self.is_loaded or asyncio.get_running_loop().time() >= until
            coming = None if is_done else asyncio.create_task(self._next_page())
            await asyncio.sleep(0)  # lets the read of the next page start
            await self._put_tasks(page)

    async def _next_page(self) -> list[TaskSnapshot]:
        async with self._services.database.statement() as connection:
            return await self.tasks.waiting(connection, self._behind, self._page)

    async def catch_up(self) -> None:
        """Processes changes committed since the last call, and tasks that became due."""
        since, self.known.doubts, doubts = self.position, UnconfirmedIds(), self.known.doubts
        try:
            await self._catch_up(since, doubts)
        except BaseException:
            self.position = since  # processed by the next call instead
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
        for batch in _slices(ids, self._page):
            async with self._services.database.statement() as connection:
                accounts = await scheduler_feed.read_accounts(connection, batch, quota)
            await self.planner(partial(self.known.put_accounts, accounts))

    async def read_nodes(self, ids: Sequence[NodeId]) -> None:
        for batch in _slices(ids, _NODES_PER_READ):
            async with self._services.database.statement() as connection:
                nodes = await self.nodes.of_ids(connection, batch)
            await self.planner(partial(self.known.put_nodes, nodes, self.now))

    async def read_tasks(self, ids: Sequence[TaskId]) -> None:
        for batch in _slices(ids, self._page):
            async with self._services.database.statement() as connection:
                tasks = await self.tasks.of_ids(connection, batch)
            await self._put_tasks(tasks)

    async def _put_tasks(self, tasks: Sequence[TaskSnapshot]) -> None:
        await self.planner(partial(self.known.put_tasks, tasks, self.now))
        arrays = [task.id for task in tasks if task.task is not None and task.task.pending]
        if arrays:
            async with self._services.database.statement() as connection:
                speeds = await scheduler_feed.read_node_speeds(connection, arrays)
            await self.planner(partial(self.known.put_paces, speeds))
        await asyncio.sleep(0)

    async def pages(
        self, read: Callable[[Connection, str, int], Awaitable[list[T]]], most: int
    ) -> AsyncIterator[list[T]]:
        """Yields ids page by page, in order."""
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
