"""Compares the leader's memory with the database, a slice at a time.

Changes after the memory's position are still on their way and are skipped; everything else must
agree. A difference is corrected, counted, and logged as an error: it means that a change was
missed. No planning may happen while a slice is compared.
"""

from collections.abc import Sequence
from functools import partial

import structlog
from msgspec.structs import replace

from potluck.decide.types import FreeNode, WaitingTask
from potluck.model.ids import NodeId, TaskId
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.scheduler import node_feed, scheduler_feed
from potluck.store.scheduler.node_feed import NodeSnapshot
from potluck.store.scheduler.scheduler_feed import WaitingId

log = structlog.get_logger()

_NODES_PER_READ = 100


class MemoryAudit:
    """One full comparison; create a new one for the next."""

    def __init__(self, services: Services, memory: LeaderMemory) -> None:
        self._services = services
        self._memory = memory
        self._known = memory.known
        self._steps = [self._waiting, self._in_line, self._nodes, self._accounts]
        self._behind = ""
        self._task_ids: list[TaskId] | None = None
        self._node_ids: list[NodeId] | None = None
        self.differences = 0

    @property
    def is_over(self) -> bool:
        return not self._steps

    async def run_once(self) -> None:
        """Compares the next slice."""
        if not await self._steps[0]():
            self._steps.pop(0)
            self._behind = ""

    async def _waiting(self) -> bool:
        """Every ready task must be queued with the same items. Returns whether there is more."""
        async with self._services.database.transaction() as connection:
            page = await scheduler_feed.waiting_ids(
                connection, self._behind, self._most, self._memory.position
            )
        scheduler, set_aside = self._known.scheduler, self._known.set_aside
        wrong = [
            task.id
            for task in page
            if task.id not in set_aside and not _agrees(scheduler.task(task.id), task)
        ]
        self._note("task", wrong)
        await self._memory.read_tasks(wrong)
        self._behind = page[-1].id if page else ""
        return len(page) == self._most

    async def _in_line(self) -> bool:
        """No other task may be queued."""
        if self._task_ids is None:
            self._task_ids = await self._memory.planner(self._known.scheduler.task_ids)
        ids, self._task_ids = self._task_ids[: self._most], self._task_ids[self._most :]
        queued = [task_id for task_id in ids if self._known.scheduler.task(task_id) is not None]
        async with self._services.database.transaction() as connection:
            wrong = await scheduler_feed.not_waiting(connection, queued, self._memory.position)
        self._note("task", wrong)
        await self._memory.read_tasks(wrong)
        return bool(self._task_ids)

    async def _nodes(self) -> bool:
        """Also takes over values that are no error, such as expected ends."""
        if self._node_ids is None:
            self._node_ids = await self._all_nodes()
        ids, self._node_ids = self._node_ids[:_NODES_PER_READ], self._node_ids[_NODES_PER_READ:]
        async with self._services.database.transaction() as connection:
            nodes = await self._memory.nodes.of_ids(connection, ids)
            changed = set(await node_feed.changed_nodes(connection, self._memory.position))
        differing = [node for node in nodes if self._known.nodes.get(node.id) != node]
        wrong = [
            node.id for node in differing if not _is_same(self._known.nodes.get(node.id), node)
        ]
        self._note("node", [node_id for node_id in wrong if node_id not in changed])
        await self._memory.planner(partial(self._known.put_nodes, differing, self._memory.now))
        return bool(self._node_ids)

    async def _all_nodes(self) -> list[NodeId]:
        ids = set(self._known.nodes)
        async for page in self._memory.pages(node_feed.online_nodes, self._most):
            ids.update(page)
        return sorted(ids)

    async def _accounts(self) -> bool:
        quota = self._services.settings.quota_running_devices
        async with self._services.database.transaction() as connection:
            ids = await scheduler_feed.all_accounts(connection, self._behind, self._most)
            accounts = await scheduler_feed.read_accounts(connection, ids, quota)
            changed = set(await scheduler_feed.changed_accounts(connection, self._memory.position))
        differing = [
            account for account in accounts if self._known.accounts.get(account.id) != account
        ]
        self._note("account", [account.id for account in differing if account.id not in changed])
        await self._memory.planner(partial(self._known.put_accounts, differing))
        self._behind = ids[-1] if ids else ""
        return len(ids) == self._most

    def _note(self, kind: str, wrong: Sequence[str]) -> None:
        if wrong:
            self.differences += len(wrong)
            self._services.metrics.memory_differences.inc(len(wrong))
            log.error(
                "the leader's memory differed from the database",
                kind=kind,
                count=len(wrong),
                some=list(wrong[:10]),
            )

    @property
    def _most(self) -> int:
        return self._services.settings.most_tasks_per_page


def _agrees(before: WaitingTask | None, now: WaitingId) -> bool:
    if before is None:
        return not now.is_ready
    return now.is_ready and before.pending == now.pending


def _is_same(before: NodeSnapshot | None, now: NodeSnapshot) -> bool:
    """Ignores reliability and expected ends, which change without an event."""
    if before is None:
        return now.node is None and not now.attempts
    if before.lists != now.lists:
        return False
    attempts = [{attempt.id for attempt in snapshot.attempts} for snapshot in (before, now)]
    return attempts[0] == attempts[1] and _offer(before.node) == _offer(now.node)


def _offer(node: FreeNode | None) -> FreeNode | None:
    return None if node is None else replace(node, reliability=1.0, is_doubted=False)
