"""Feeds the scheduler with queued tasks, capacity and accounts, as read from PostgreSQL.

All of it may be outdated. Nothing here reads or waits.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence, Set

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.ahead import GrantAhead
from potluck.decide.arrays.node_speed import ArrayProgress
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import AccountShare, Assignment, FreeDevice, FreeNode
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.store.attempts.assign import Assigned
from potluck.store.scheduler.node_feed import NodeSnapshot, WalletLists
from potluck.store.scheduler.scheduler_feed import NodeSpeed, TaskSnapshot


class WalletAccounts:
    """Resolves the wallets in owners' lists to accounts; a wallet may not have one yet."""

    def __init__(self) -> None:
        self._accounts: dict[str, AccountId] = {}
        self._awaited: dict[
            NodeId, frozenset[str]
        ] = {}  # wallets named there that have no account yet

    def add(self, accounts: Iterable[AccountShare]) -> set[NodeId]:
        """Adds wallets; returns the nodes that waited for one of them."""
        new = {
            account.wallet: account.id
            for account in accounts
            if account.wallet not in self._accounts
        }
        self._accounts |= new
        return {node_id for node_id, names in self._awaited.items() if not names.isdisjoint(new)}

    def resolve(self, current: NodeSnapshot) -> FreeNode | None:
        """The node, with the accounts that its owner's lists name."""
        wallets = {name for lists in current.lists.values() for name in lists.allow | lists.deny}
        awaited = frozenset(wallets.difference(self._accounts))
        if awaited:
            self._awaited[current.id] = awaited
        else:
            self._awaited.pop(current.id, None)
        if current.node is None or not current.lists:
            return current.node
        devices = [
            self._device(current.node, device, current.lists.get(device.id))
            for device in current.node.devices
        ]
        return replace(current.node, devices=tuple(devices))

    def _device(self, node: FreeNode, device: FreeDevice, lists: WalletLists | None) -> FreeDevice:
        """Lists are about others: owners' own tasks are always accepted."""
        if lists is None:
            return device
        owner = {node.account_id}
        allow = self._of(lists.allow) | owner if lists.allow else None
        return replace(device, allow=allow, deny=self._of(lists.deny) - owner)

    def _of(self, names: frozenset[str]) -> frozenset[AccountId]:
        return frozenset(self._accounts[name] for name in names if name in self._accounts)


# Avoids compacting a small heap repeatedly.
_SPARE = 64


class DelayedTasks:
    """Tasks that become ready at a later time."""

    def __init__(self) -> None:
        self._times: dict[TaskId, float] = {}
        self._heap: list[tuple[float, TaskId]] = []  # earliest first; may contain outdated entries

    def __len__(self) -> int:
        """The number of entries in memory."""
        return len(self._heap)

    def put(self, task_id: TaskId, at: float) -> None:
        if self._times.get(task_id) != at:
            self._times[task_id] = at
            heapq.heappush(self._heap, (at, task_id))
            self._compact()

    def drop(self, task_id: TaskId) -> None:
        if self._times.pop(task_id, None) is not None:
            self._compact()

    def take_due(self, now: float) -> list[TaskId]:
        """Removes and returns the tasks that are due."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            at, task_id = heapq.heappop(self._heap)
            if self._times.get(task_id) == at:
                del self._times[task_id]
                due.append(task_id)
        return due

    @property
    def next_at(self) -> float | None:
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._times) + _SPARE:
            self._heap = [(at, task_id) for task_id, at in self._times.items()]
            heapq.heapify(self._heap)


# A refusal may be a race; not this many in a row.
_MAX_REFUSALS = 3


class RefusalCounts:
    """How often plans for a task were refused in a row, although the task did not change."""

    def __init__(self) -> None:
        self._counts: Counter[TaskId] = Counter()
        self._read: dict[TaskId, TaskSnapshot] = {}  # after the last refusal

    def count(self, task_id: TaskId) -> bool:
        """Counts a refusal. True if it was one too many, and the next one is the first again."""
        self._counts[task_id] += 1
        if self._counts[task_id] < _MAX_REFUSALS:
            return False
        self.drop(task_id)
        return True

    def note_read(self, task: TaskSnapshot) -> None:
        """Starts anew if the task has changed, since the plan may have been refused for that: each
        range of an array that ends may delay the array and return items."""
        if task.id not in self._counts:
            return
        if task.task is None or self._read.setdefault(task.id, task) != task:
            self.drop(task.id)

    def drop(self, task_id: TaskId) -> None:
        self._counts.pop(task_id, None)
        self._read.pop(task_id, None)


class UnconfirmedIds(Struct):
    """What must be read again, because a plan with it was not applied."""

    tasks: set[TaskId] = msgspec.field(default_factory=set)
    nodes: set[NodeId] = msgspec.field(default_factory=set)


class SchedulerInput:
    """The state that the scheduler plans with."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.doubts = UnconfirmedIds()
        self.nodes: dict[NodeId, NodeSnapshot] = {}  # as last read
        self.accounts: dict[AccountId, AccountShare] = {}
        self._wallets = WalletAccounts()
        self._later = DelayedTasks()
        self._refusals = RefusalCounts()
        self.set_aside: dict[TaskId, float] = {}  # refused repeatedly; until when

    def put_tasks(self, tasks: Iterable[TaskSnapshot], now: float) -> None:
        for task in tasks:
            self._refusals.note_read(task)
            ready_at = max(task.ready_at or 0.0, self.set_aside.get(task.id, 0.0))
            if task.task is not None and ready_at > now:
                self.scheduler.drop_task(task.id)
                self._later.put(task.id, ready_at)
                continue
            self._later.drop(task.id)
            self.set_aside.pop(task.id, None)
            if task.task is not None:
                self.scheduler.put_task(task.task)
            else:
                self.scheduler.drop_task(task.id)

    def due(self, now: float) -> list[TaskId]:
        """Tasks that may be ready now and must be read again."""
        due = self._later.take_due(now)
        for task_id in due:
            self.set_aside.pop(task_id, None)
        return due

    @property
    def next_due(self) -> float | None:
        return self._later.next_at

    def put_nodes(self, nodes: Iterable[NodeSnapshot], now: float) -> None:
        for node in nodes:
            before = self.nodes.get(node.id)
            running = {attempt.id for attempt in node.attempts}
            for attempt in before.attempts if before is not None else ():
                if attempt.id not in running:
                    self.scheduler.drop_running(attempt.id, now)
            for attempt in node.attempts:
                self.scheduler.put_running(attempt, now)
            self.scheduler.ahead.lines.set_ahead(node.id, node.ahead)
            self._put_node(node)

    def _put_node(self, current: NodeSnapshot) -> None:
        node = self._wallets.resolve(current)
        if node is None:
            self.scheduler.drop_node(current.id)
        else:
            self.scheduler.put_node(node)
        if current.node is None and not current.attempts:
            self.nodes.pop(current.id, None)
        else:
            self.nodes[current.id] = current

    def put_accounts(self, accounts: Sequence[AccountShare]) -> None:
        self.doubts.nodes |= self._wallets.add(accounts)
        for account in accounts:
            self.accounts[account.id] = account
            self.scheduler.put_account(account)

    def put_paces(self, speeds: Iterable[NodeSpeed]) -> None:
        by_task: dict[TaskId, dict[NodeId, ArrayProgress]] = {}
        for speed in speeds:
            progress = ArrayProgress(speed.item_seconds, speed.in_vain)
            by_task.setdefault(speed.task_id, {})[speed.node_id] = progress
        for task_id, nodes in by_task.items():
            self.scheduler.observed(task_id, nodes)

    def came_true(self, assigned: Assigned, now: float) -> None:
        """The attempt now runs under this id."""
        assignment = assigned.assignment
        self._refusals.drop(assignment.task_id)
        expected_end = now + assignment.expected_seconds
        attempt = assignment.running(assigned.attempt_id, assigned.consumer_id, expected_end)
        self.scheduler.put_running(attempt, now)
        node = self.nodes.get(assignment.node_id) or NodeSnapshot(assignment.node_id, None, ())
        self.nodes[node.id] = replace(node, attempts=(*node.attempts, attempt))

    def doubt(self, assignment: Assignment, now: float) -> None:
        """It was not applied, or its outcome is unknown: task and node are read again."""
        self.scheduler.refused(assignment, now)
        self.doubts.tasks.add(assignment.task_id)
        self.doubts.nodes.add(assignment.node_id)

    def granted_ahead(self, grant: GrantAhead, granted: Set[TaskId]) -> None:
        """Those that were not granted, or perhaps not, are read again, and so is the node."""
        self.scheduler.ahead.note(grant, granted)
        left = {task.id for task in grant.tasks} - granted
        if left:
            self.doubts.tasks |= left
            self.doubts.nodes.add(grant.holder.node_id)

    def refuse(self, task_id: TaskId, until: float) -> bool:
        """Counts a refusal. True if it was one too many: the task is set aside for a while."""
        is_one_too_many = self._refusals.count(task_id)
        if is_one_too_many:
            self.set_aside[task_id] = until
        return is_one_too_many
