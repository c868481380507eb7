"""The waiting tasks in memory, in groups that are placed or refused alike.

Tasks of one account with equal requirements, limits, priority and failed nodes, and about the same
duration, form a group: if its first task cannot be placed, neither can the others. The duration
matters because a short task may use capacity that is reserved for later; an array is a group of its
own because it skips nodes that are slow at it. A round checks groups, so a million waiting tasks
cost memory, not time.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import chain, islice
from math import frexp
from typing import NamedTuple
from weakref import WeakValueDictionary

from potluck.decide.order.interface import OrderPolicy
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import Limits, Requirements


class BlockReason(Enum):
    """Why a group is blocked, and so what must happen before it is tried again."""

    NONE = "none"  # it is not: the next round tries it
    NO_CAPACITY = "capacity"  # no node has the capacity: until some node gains some
    KEPT = "kept"  # the free capacity is reserved: until there is more, or others are served
    SLOW = "slow"  # of an array: the free nodes would delay its end: until there are others
    CREDIT = "credit"  # the account cannot pay: until it has more, or something cheaper is free
    QUOTA = "quota"  # the account has reached its quota: until something of it ends
    TOO_LARGE = "too_large"  # it exceeds the whole quota: until the quota grows

    __hash__ = object.__hash__  # that of an enum is slow

    @property
    def is_of_account(self) -> bool:
        """Whether the account itself is the reason, whatever capacity is free."""
        return self in _OF_ACCOUNT


_OF_ACCOUNT = {BlockReason.CREDIT, BlockReason.QUOTA, BlockReason.TOO_LARGE}


Entry = tuple[float, TaskId, WaitingTask]

_FEW = 64


class OrderedEntries:
    """A sorted list that is cheap if entries arrive in order; late ones go to a heap."""

    __slots__ = ("_entries", "_late", "_start")

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._start = 0  # entries before it were taken
        self._late: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries) - self._start + len(self._late)

    def add(self, entry: Entry) -> None:
        entries = self._entries
        if len(entries) > self._start and entry < entries[-1]:
            heapq.heappush(self._late, entry)
        else:
            entries.append(entry)

    def first(self) -> Entry | None:
        entry = self._entries[self._start] if self._start < len(self._entries) else None
        if self._late and (entry is None or self._late[0] < entry):
            return self._late[0]
        return entry

    def take(self) -> None:
        if self._late and self.first() is self._late[0]:
            heapq.heappop(self._late)
            return
        self._start += 1
        if self._start > _FEW and 2 * self._start > len(self._entries):
            del self._entries[: self._start]
            self._start = 0

    def replace(self, entry: Entry) -> None:
        """Replaces the first entry by one with the same position."""
        if self._late and self.first() is self._late[0]:
            heapq.heapreplace(self._late, entry)
        else:
            self._entries[self._start] = entry

    def every(self, stride: int) -> Iterator[Entry]:
        """Every `stride`-th entry, in no order."""
        return islice(chain(islice(self._entries, self._start, None), self._late), 0, None, stride)

    def keep(self, is_kept: Callable[[Entry], bool]) -> None:
        """Removes all other entries."""
        self._entries = [each for each in islice(self._entries, self._start, None) if is_kept(each)]
        self._start = 0
        self._late = [each for each in self._late if is_kept(each)]
        heapq.heapify(self._late)


# A larger group is sampled, and a search stops after this many tasks.
_MOST_LOOKS = 20_000


_Parts = tuple[
    AccountId, Requirements, Limits, int, frozenset[NodeId], int, int | None, TaskId | None, str
]


class GroupKey(NamedTuple):
    account_id: AccountId
    requirements: Requirements
    limits: Limits
    priority: int
    failed_on: frozenset[NodeId]
    nodes: int
    span: int | None  # the expected duration as a power of two; None if unknown
    array: TaskId | None
    kind: str


class Shape:
    """Identity of groups that fit, or do not fit, together. Equal shapes are one object."""

    __slots__ = ("__weakref__",)


class TaskGroup:
    __slots__ = (
        *(
            "block_reason",
            "blocked_position",
            "entries",
            "head",
            "key",
            "number",
            "ready_position",
            "shape",
        ),
        *("stale", "waited_until"),
    )

    def __init__(self, key: GroupKey, shape: Shape, number: int) -> None:
        self.key = key
        self.shape = shape
        self.number = number  # breaks ties: the older group goes first
        self.block_reason = BlockReason.NONE
        self.ready_position: float | None = None  # its position among the ready groups
        self.blocked_position: float | None = (
            None  # its position among the blocked groups of its shape
        )
        self.entries = OrderedEntries()  # may contain stale entries, which are skipped
        self.head: Entry | None = None  # the first entry that is not stale; None: look again
        self.stale = 0  # entries whose task was replaced or dropped
        self.waited_until = 0.0  # tasks submitted up to then found the group blocked


class TaskGroups:
    def __init__(self, order: OrderPolicy) -> None:
        self._order = order
        # In a shortest-first order no short task waits behind a long one anyway.
        self._has_spans = not order.promises
        self._tasks: dict[TaskId, WaitingTask] = {}
        self._groups: dict[_Parts, TaskGroup] = {}
        self._shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()
        self._arrived: dict[TaskGroup, int] = {}
        self._numbers = 0
        self._named: frozenset[AccountId] = frozenset()
        # Oldest first; used only if the order may let tasks wait for ever.
        self._ages: list[Entry] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def task(self, task_id: TaskId) -> WaitingTask | None:
        return self._tasks.get(task_id)

    def task_ids(self) -> list[TaskId]:
        return list(self._tasks)

    def has(self, key: GroupKey) -> bool:
        return key in self._groups

    def groups(self) -> list[TaskGroup]:
        return list(self._groups.values())

    def group_of(self, task: WaitingTask) -> TaskGroup | None:
        return self._groups.get(_parts(task, self._has_spans))

    def shape_of(self, task: WaitingTask) -> Shape:
        """Also for a task that is not in the queue."""
        group = self.group_of(task)
        return (
            self._shape(GroupKey(*_parts(task, self._has_spans))) if group is None else group.shape
        )

    def put(self, task: WaitingTask) -> TaskGroup:
        """Adds a task to its group, or replaces it."""
        group = self._group(task)
        task_id = task.id
        known = self._tasks.get(task_id)
        if known is None:
            self._arrived[group] = self._arrived.get(group, 0) + 1
        elif known == task:
            return group
        else:
            self._forget(known)
        self._tasks[task_id] = task
        entry = (self._order.within(task), task_id, task)
        group.entries.add(entry)
        if group.head is not None and entry < group.head:
            group.head = None
        if self._order.promises:
            heapq.heappush(self._ages, (task.submitted_at, task.id, task))
        return group

    def take_arrived(self) -> dict[TaskGroup, int]:
        """The number of new tasks per group since the last call."""
        arrived, self._arrived = self._arrived, {}
        return arrived

    def drop(self, task_id: TaskId) -> WaitingTask | None:
        task = self._tasks.pop(task_id, None)
        if task is not None:
            self._forget(task)
        return task

    def first(self, group: TaskGroup) -> Entry | None:
        """The first entry of a group; None if it is empty."""
        if group.head is not None:
            return group.head
        entries = group.entries
        while (entry := entries.first()) is not None:
            if self._tasks.get(entry[1]) is entry[2]:
                group.head = entry
                return entry
            entries.take()
            group.stale -= 1
        if self._groups.get(group.key) is group:  # and not a newer group with the same key
            del self._groups[group.key]
        return None

    def set_named(self, named: frozenset[AccountId]) -> list[TaskGroup]:
        """Sets the accounts that some node treats specially; these have shapes of their own.

        Returns the affected groups, which must be regrouped and must not be blocked meanwhile.
        """
        changed = named ^ self._named
        self._named = named
        if not changed:
            return []
        return [group for group in self._groups.values() if group.key.account_id in changed]

    def regroup(self, group: TaskGroup) -> None:
        group.shape = self._shape(group.key)

    def serve(self, group: TaskGroup, left: WaitingTask | None = None) -> None:
        """Removes the first task of a group, or replaces it by what is left of it."""
        assert group.head is not None, "it was looked up just before"
        place, task_id, _ = group.head
        group.head = None
        if left is None:
            group.entries.take()
            del self._tasks[task_id]
            return
        self._tasks[task_id] = left
        group.entries.replace((place, task_id, left))
        if self._order.promises:
            heapq.heappush(self._ages, (left.submitted_at, task_id, left))

    def overdue(
        self, before: float, most: int, suits: Callable[[WaitingTask], bool]
    ) -> list[WaitingTask]:
        """The oldest tasks that were submitted before a time and satisfy `suits`."""
        if len(self._ages) > 2 * len(self._tasks) + 1000:
            self._ages = [each for each in self._ages if self._tasks.get(each[1]) is each[2]]
            heapq.heapify(self._ages)
        seen: list[Entry] = []
        found: list[WaitingTask] = []
        while self._ages and self._ages[0][0] <= before:
            if len(found) >= most or len(seen) >= _MOST_LOOKS:
                break
            entry = heapq.heappop(self._ages)
            if self._tasks.get(entry[1]) is entry[2]:
                seen.append(entry)
                if suits(entry[2]):
                    found.append(entry[2])
        for entry in seen:
            heapq.heappush(self._ages, entry)
        return found

    def ahead_in_account(self, task: WaitingTask) -> int:
        """How many tasks of its account go before it; an estimate if there are very many."""
        groups = [
            group for group in self._groups.values() if group.key.account_id == task.account_id
        ]
        return sum(self._ahead(group, task) for group in groups)

    def ahead_in_shape(self, task: WaitingTask) -> int:
        """How many tasks of its shape go before it, if accounts take turns."""
        shape = self.shape_of(task)
        alike = [group for group in self._groups.values() if group.shape == shape]
        own = [group for group in alike if group.key.account_id == task.account_id]
        ahead = sum(self._ahead(group, task) for group in own)
        others: Counter[AccountId] = Counter()
        for group in alike:
            others[group.key.account_id] += len(group.entries)
        del others[task.account_id]
        return ahead + sum(min(count, ahead + 1) for count in others.values())

    def count(self, group: TaskGroup) -> int:
        return len(group.entries) - group.stale

    def firsts(self) -> dict[AccountId, tuple[WaitingTask, int]]:
        """The first task of each account, and about how many tasks it has."""
        best: dict[AccountId, Entry] = {}
        counts: Counter[AccountId] = Counter()
        for group in self.groups():
            entry = self.first(group)
            if entry is not None:
                account_id = group.key.account_id
                counts[account_id] += len(group.entries)
                best[account_id] = min(best.get(account_id, entry), entry, key=lambda e: e[:2])
        return {account_id: (entry[2], counts[account_id]) for account_id, entry in best.items()}

    def goes_before(self, entry: Entry, task: WaitingTask) -> bool:
        return entry[:2] < (self._order.within(task), task.id)

    def _ahead(self, group: TaskGroup, task: WaitingTask) -> int:
        """Samples a large group."""
        place = (self._order.within(task), task.id)
        stride = 1 + len(group.entries) // _MOST_LOOKS
        return stride * sum(
            entry[:2] < place and self._tasks.get(entry[1]) is entry[2]
            for entry in group.entries.every(stride)
        )

    def _group(self, task: WaitingTask) -> TaskGroup:
        parts = _parts(task, self._has_spans)
        group = self._groups.get(parts)
        if group is None:
            self._numbers += 1
            key = GroupKey(*parts)
            group = self._groups[key] = TaskGroup(key, self._shape(key), self._numbers)
        return group

    def _shape(self, key: GroupKey) -> Shape:
        """The account matters for fractions, which it may place beside its own, and if some node
        treats it specially."""
        is_personal = key.requirements.device_milli is not None or key.account_id in self._named
        whose = key.account_id if is_personal else None
        parts = (key.requirements, key.failed_on, key.nodes, whose, key.kind)
        shape = self._shapes.get(parts)
        if shape is None:
            shape = self._shapes[parts] = Shape()
        return shape

    def _forget(self, task: WaitingTask) -> None:
        """Leaves a stale entry behind; many of them are removed together."""
        group = self._groups.get(_parts(task, self._has_spans))
        if group is None:
            return
        group.head = None
        group.stale += 1
        if group.stale > 64 and group.stale * 2 > len(group.entries):
            group.entries.keep(lambda each: self._tasks.get(each[1]) is each[2])
            group.stale = 0


def _parts(task: WaitingTask, has_spans: bool) -> _Parts:
    """The key of its group as a plain tuple, which is equal to the key and faster to build."""
    return (
        task.account_id,
        task.requirements,
        task.limits,
        task.priority,
        task.failed_on,
        task.nodes,
        _span(task.expected_seconds) if has_spans else None,
        task.id if task.pending else None,
        task.kind,
    )


def _span(seconds: float | None) -> int | None:
    return None if seconds is None else frexp(seconds)[1]
