"""What the leader knows: what waits, what is free and who can pay, told to the scheduler.

All of it was read from PostgreSQL, and all of it may be old by now. Nothing here asks or waits.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.arrays.node_speed import ArrayProgress
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import AccountShare, Assignment, FreeDevice, FreeNode
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.store.attempts.assign import Assigned
from potluck.store.scheduler.scheduler_feed import (
    NodeNow,
    NodeSpeed,
    TaskNow,
    WalletLists,
)


class WalletAccounts:
    def __init__(self) -> None:
        self._accounts: dict[str, AccountId] = {}
        self._awaited: dict[NodeId, frozenset[str]] = {}  # named there, and nobody's yet

    def meet(self, accounts: Iterable[AccountShare]) -> set[NodeId]:
        """Takes note of whose a wallet is; the nodes that have been waiting to hear of it."""
        new = {each.wallet: each.id for each in accounts if each.wallet not in self._accounts}
        self._accounts |= new
        return {node_id for node_id, names in self._awaited.items() if not names.isdisjoint(new)}

    def resolve(self, now: NodeNow) -> FreeNode | None:
        """The node, with the accounts that its owner's lists name."""
        named = {name for each in now.lists.values() for name in each.allow | each.deny}
        awaited = frozenset(named.difference(self._accounts))
        if awaited:
            self._awaited[now.id] = awaited
        else:
            self._awaited.pop(now.id, None)
        if now.node is None or not now.lists:
            return now.node
        devices = [
            self._device(now.node, each, now.lists.get(each.id)) for each in now.node.devices
        ]
        return replace(now.node, devices=tuple(devices))

    def _device(self, node: FreeNode, device: FreeDevice, lists: WalletLists | None) -> FreeDevice:
        """Lists are about others: his own tasks an owner always takes."""
        if lists is None:
            return device
        owner = {node.account_id}
        allow = self._of(lists.allow) | owner if lists.allow else None
        return replace(device, allow=allow, deny=self._of(lists.deny) - owner)

    def _of(self, names: frozenset[str]) -> frozenset[AccountId]:
        return frozenset(self._accounts[name] for name in names if name in self._accounts)


# So that few entries are not tidied again and again.
_SPARE = 64


class DelayedTasks:
    def __init__(self) -> None:
        self._times: dict[TaskId, float] = {}
        self._heap: list[tuple[float, TaskId]] = []  # the next first; also what no longer holds

    def __len__(self) -> int:
        """What it keeps in memory."""
        return len(self._heap)

    def put(self, task_id: TaskId, at: float) -> None:
        if self._times.get(task_id) != at:
            self._times[task_id] = at
            heapq.heappush(self._heap, (at, task_id))
            self._tidy()

    def drop(self, task_id: TaskId) -> None:
        if self._times.pop(task_id, None) is not None:
            self._tidy()

    def take_due(self, now: float) -> list[TaskId]:
        """Those whose time has come, which are no longer here."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, task_id = heapq.heappop(self._heap)
            if self._times.get(task_id) == at:
                del self._times[task_id]
                found.append(task_id)
        return found

    @property
    def next_at(self) -> float | None:
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._times) + _SPARE:
            self._heap = [(at, task_id) for task_id, at in self._times.items()]
            heapq.heapify(self._heap)


# Somebody else was quicker, perhaps; not so often in a row.
_MOST_REFUSALS = 3


class UnconfirmedIds(Struct):
    """What has to be read again, because a plan with it did not come true."""

    tasks: set[TaskId] = msgspec.field(default_factory=set)
    nodes: set[NodeId] = msgspec.field(default_factory=set)


class SchedulerInput:
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.doubts = UnconfirmedIds()
        self.nodes: dict[NodeId, NodeNow] = {}  # as they were read
        self.accounts: dict[AccountId, AccountShare] = {}
        self._wallets = WalletAccounts()
        self._later = DelayedTasks()
        self._refusals: Counter[TaskId] = Counter()
        self.set_aside: dict[TaskId, float] = {}  # refused again and again; until when

    def put_tasks(self, found: Iterable[TaskNow], now: float) -> None:
        for each in found:
            ready_at = max(each.ready_at or 0.0, self.set_aside.get(each.id, 0.0))
            if each.task is not None and ready_at > now:
                self.scheduler.drop_task(each.id)
                self._later.put(each.id, ready_at)
                continue
            self._later.drop(each.id)
            self.set_aside.pop(each.id, None)
            if each.task is not None:
                self.scheduler.put_task(each.task)
            else:
                self.scheduler.drop_task(each.id)
                self._refusals.pop(each.id, None)

    def due(self, now: float) -> list[TaskId]:
        """Those that may be ready by now: they have to be read again."""
        found = self._later.take_due(now)
        for task_id in found:
            self.set_aside.pop(task_id, None)
        return found

    @property
    def next_due(self) -> float | None:
        return self._later.next_at

    def put_nodes(self, found: Iterable[NodeNow], now: float) -> None:
        for each in found:
            before = self.nodes.get(each.id)
            running = {attempt.id for attempt in each.attempts}
            for attempt in before.attempts if before is not None else ():
                if attempt.id not in running:
                    self.scheduler.drop_running(attempt.id, now)
            for attempt in each.attempts:
                self.scheduler.put_running(attempt, now)
            self._put_node(each)

    def _put_node(self, now: NodeNow) -> None:
        node = self._wallets.resolve(now)
        if node is None:
            self.scheduler.drop_node(now.id)
        else:
            self.scheduler.put_node(node)
        if now.node is None and not now.attempts:
            self.nodes.pop(now.id, None)
        else:
            self.nodes[now.id] = now

    def put_accounts(self, found: Sequence[AccountShare]) -> None:
        self.doubts.nodes |= self._wallets.meet(found)
        for each in found:
            self.accounts[each.id] = each
            self.scheduler.put_account(each)

    def put_paces(self, found: Iterable[NodeSpeed]) -> None:
        seen: dict[TaskId, dict[NodeId, ArrayProgress]] = {}
        for each in found:
            here = ArrayProgress(each.item_seconds, each.in_vain)
            seen.setdefault(each.task_id, {})[each.node_id] = here
        for task_id, nodes in seen.items():
            self.scheduler.observed(task_id, nodes)

    def came_true(self, assigned: Assigned, now: float) -> None:
        """It runs under this id from now on, however soon it ends."""
        given = assigned.assignment
        self._refusals.pop(given.task_id, None)
        expected_end = now + given.expected_seconds
        attempt = given.running(assigned.attempt_id, assigned.consumer_id, expected_end)
        self.scheduler.put_running(attempt, now)
        node = self.nodes.get(given.node_id) or NodeNow(given.node_id, None, ())
        self.nodes[node.id] = replace(node, attempts=(*node.attempts, attempt))

    def doubt(self, assignment: Assignment, now: float) -> None:
        """It did not come true, or nobody knows: what it was planned with is read again."""
        self.scheduler.refused(assignment, now)
        self.doubts.tasks.add(assignment.task_id)
        self.doubts.nodes.add(assignment.node_id)

    def refuse(self, task_id: TaskId, until: float) -> bool:
        """Counts a refusal. True if it was one too many: the task is set aside for a while."""
        self._refusals[task_id] += 1
        if self._refusals[task_id] < _MOST_REFUSALS:
            return False
        del self._refusals[task_id]
        self.set_aside[task_id] = until
        return True
