"""Compares all that the leader keeps in memory with the database, a slice at a time.

What the position has not seen is on its way and is passed over; anything else must agree. If it
does not, something was missed: it is mended, counted, and logged as an error, since nobody should
ever see that. Nothing may be planned while a slice is compared.
"""

from collections.abc import Sequence

import structlog
from msgspec.structs import replace

from potluck.decide.types import FreeNode, WaitingTask
from potluck.model.ids import NodeId, TaskId
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.scheduler import scheduler_feed
from potluck.store.scheduler.scheduler_feed import NodeNow, WaitingId

log = structlog.get_logger()

_NODES_AT_ONCE = 100


class MemoryAudit:
    """One comparison of everything; made anew for the next."""

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
        """The next slice."""
        if not await self._steps[0]():
            self._steps.pop(0)
            self._behind = ""

    async def _waiting(self) -> bool:
        """What is ready must be in line, with the same items left. Answers if there is more."""
        async with self._services.database.transaction() as connection:
            page = await scheduler_feed.waiting_ids(
                connection, self._behind, self._most, self._memory.position
            )
        line, aside = self._known.scheduler, self._known.set_aside
        wrong = [
            each.id
            for each in page
            if each.id not in aside and not _agrees(line.task(each.id), each)
        ]
        self._note("task", wrong)
        await self._memory.read_tasks(wrong)
        self._behind = page[-1].id if page else ""
        return len(page) == self._most

    async def _in_line(self) -> bool:
        """Nothing else is in line."""
        if self._task_ids is None:
            self._task_ids = self._known.scheduler.task_ids()
        ids, self._task_ids = self._task_ids[: self._most], self._task_ids[self._most :]
        still = [each for each in ids if self._known.scheduler.task(each) is not None]
        async with self._services.database.transaction() as connection:
            wrong = await scheduler_feed.not_waiting(connection, still, self._memory.position)
        self._note("task", wrong)
        await self._memory.read_tasks(wrong)
        return bool(self._task_ids)

    async def _nodes(self) -> bool:
        """What is no error by itself, such as how long something will still take, is taken over."""
        if self._node_ids is None:
            self._node_ids = await self._all_nodes()
        ids, self._node_ids = self._node_ids[:_NODES_AT_ONCE], self._node_ids[_NODES_AT_ONCE:]
        async with self._services.database.transaction() as connection:
            found = await self._memory.nodes.of_ids(connection, ids)
            changed = set(await scheduler_feed.changed_nodes(connection, self._memory.position))
        other = [each for each in found if self._known.nodes.get(each.id) != each]
        wrong = [each.id for each in other if not _is_same(self._known.nodes.get(each.id), each)]
        self._note("node", [each for each in wrong if each not in changed])
        self._known.put_nodes(other, self._memory.now)
        return bool(self._node_ids)

    async def _all_nodes(self) -> list[NodeId]:
        ids = set(self._known.nodes)
        async for page in self._memory.pages(scheduler_feed.online_nodes, self._most):
            ids.update(page)
        return sorted(ids)

    async def _accounts(self) -> bool:
        quota = self._services.settings.quota_running_devices
        async with self._services.database.transaction() as connection:
            ids = await scheduler_feed.all_accounts(connection, self._behind, self._most)
            found = await scheduler_feed.accounts(connection, ids, quota)
            changed = set(await scheduler_feed.changed_accounts(connection, self._memory.position))
        other = [each for each in found if self._known.accounts.get(each.id) != each]
        self._note("account", [each.id for each in other if each.id not in changed])
        self._known.put_accounts(other)
        self._behind = ids[-1] if ids else ""
        return len(ids) == self._most

    def _note(self, kind: str, wrong: Sequence[str]) -> None:
        if wrong:
            self.differences += len(wrong)
            log.error(
                "the leader's memory differed from the database",
                kind=kind,
                count=len(wrong),
                some=list(wrong[:10]),
            )

    @property
    def _most(self) -> int:
        return self._services.settings.most_tasks_per_page


def _agrees(known: WaitingTask | None, now: WaitingId) -> bool:
    if known is None:
        return not now.is_ready
    return now.is_ready and known.pending == now.pending


def _is_same(known: NodeNow | None, now: NodeNow) -> bool:
    """Apart from what is not worth a change of its own: how reliable it is, and expected ends."""
    if known is None:
        return now.node is None and not now.attempts
    if known.lists != now.lists:
        return False
    attempts = [{attempt.id for attempt in each.attempts} for each in (known, now)]
    return attempts[0] == attempts[1] and _offer(known.node) == _offer(now.node)


def _offer(node: FreeNode | None) -> FreeNode | None:
    return None if node is None else replace(node, reliability=1.0)
