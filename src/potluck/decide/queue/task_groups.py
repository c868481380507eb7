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


class Halt(Enum):
    """Why a group is blocked, and so what must happen before it is tried again."""

    NONE = "none"  # it is not: the next round tries it
    ROOM = "room"  # no node has the capacity: until some node gains some
    KEPT = "kept"  # the free capacity is reserved: until there is more, or others are served
    SLOW = "slow"  # of an array: the free nodes would delay its end: until there are others
    CREDIT = "credit"  # the account cannot pay: until it has more, or something cheaper is free
    QUOTA = "quota"  # the account has reached its quota: until something of it ends
    TOO_LARGE = "too_large"  # it exceeds the whole quota: until the quota grows

    @property
    def is_of_account(self) -> bool:
        """Whether the account itself is the reason, whatever capacity is free."""
        return self in _OF_ACCOUNT


_OF_ACCOUNT = {Halt.CREDIT, Halt.QUOTA, Halt.TOO_LARGE}


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


class LineKey(NamedTuple):
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
    __slots__ = ("halt", "halted", "key", "number", "offered", "row", "shape", "stale")

    def __init__(self, key: LineKey, shape: Shape, number: int) -> None:
        self.key = key
        self.shape = shape
        self.number = number  # breaks ties: the older group goes first
        self.halt = Halt.NONE
        self.offered: float | None = None  # its position among the ready groups
        self.halted: float | None = None  # its position among the blocked groups of its shape
        self.row = OrderedEntries()  # may contain stale entries, which are skipped
        self.stale = 0  # entries whose task was replaced or dropped


class Lines:
    def __init__(self, order: OrderPolicy) -> None:
        self._order = order
        # In a shortest-first order no short task waits behind a long one anyway.
        self._has_spans = not order.promises
        self._tasks: dict[TaskId, WaitingTask] = {}
        self._lines: dict[_Parts, TaskGroup] = {}
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

    def has(self, key: LineKey) -> bool:
        return key in self._lines

    def lines(self) -> list[TaskGroup]:
        return list(self._lines.values())

    def line_of(self, task: WaitingTask) -> TaskGroup | None:
        return self._lines.get(_parts(task, self._has_spans))

    def shape_of(self, task: WaitingTask) -> Shape:
        """Also for a task that is not in the queue."""
        line = self.line_of(task)
        return self._shape(LineKey(*_parts(task, self._has_spans))) if line is None else line.shape

    def put(self, task: WaitingTask) -> TaskGroup:
        """Adds a task to its group, or replaces it."""
        line = self._line(task)
        task_id = task.id
        known = self._tasks.get(task_id)
        if known is None:
            self._arrived[line] = self._arrived.get(line, 0) + 1
        elif known == task:
            return line
        else:
            self._forget(known)
        self._tasks[task_id] = task
        line.row.add((self._order.within(task), task_id, task))
        if self._order.promises:
            heapq.heappush(self._ages, (task.submitted_at, task.id, task))
        return line

    def take_arrived(self) -> dict[TaskGroup, int]:
        """The number of new tasks per group since the last call."""
        arrived, self._arrived = self._arrived, {}
        return arrived

    def drop(self, task_id: TaskId) -> WaitingTask | None:
        task = self._tasks.pop(task_id, None)
        if task is not None:
            self._forget(task)
        return task

    def first(self, line: TaskGroup) -> Entry | None:
        """The first entry of a group; None if it is empty."""
        row = line.row
        while (entry := row.first()) is not None:
            if self._tasks.get(entry[1]) is entry[2]:
                return entry
            row.take()
            line.stale -= 1
        if self._lines.get(line.key) is line:  # and not a newer group with the same key
            del self._lines[line.key]
        return None

    def set_named(self, named: frozenset[AccountId]) -> list[TaskGroup]:
        """Sets the accounts that some node treats specially; these have shapes of their own.

        Returns the affected groups, which must be regrouped and must not be blocked meanwhile.
        """
        changed = named ^ self._named
        self._named = named
        if not changed:
            return []
        return [line for line in self._lines.values() if line.key.account_id in changed]

    def regroup(self, line: TaskGroup) -> None:
        line.shape = self._shape(line.key)

    def serve(self, line: TaskGroup, left: WaitingTask | None = None) -> None:
        """Removes the first task of a group, or replaces it by what is left of it."""
        entry = line.row.first()
        assert entry is not None
        place, task_id, _ = entry
        if left is None:
            line.row.take()
            del self._tasks[task_id]
            return
        self._tasks[task_id] = left
        line.row.replace((place, task_id, left))
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
        lines = [line for line in self._lines.values() if line.key.account_id == task.account_id]
        return sum(self._ahead(line, task) for line in lines)

    def ahead_in_shape(self, task: WaitingTask) -> int:
        """How many tasks of its shape go before it, if accounts take turns."""
        shape = self.shape_of(task)
        alike = [line for line in self._lines.values() if line.shape == shape]
        own = [line for line in alike if line.key.account_id == task.account_id]
        ahead = sum(self._ahead(line, task) for line in own)
        others: Counter[AccountId] = Counter()
        for line in alike:
            others[line.key.account_id] += len(line.row)
        del others[task.account_id]
        return ahead + sum(min(count, ahead + 1) for count in others.values())

    def count(self, line: TaskGroup) -> int:
        return len(line.row) - line.stale

    def firsts(self) -> dict[AccountId, tuple[WaitingTask, int]]:
        """The first task of each account, and about how many tasks it has."""
        best: dict[AccountId, Entry] = {}
        counts: Counter[AccountId] = Counter()
        for line in self.lines():
            entry = self.first(line)
            if entry is not None:
                account_id = line.key.account_id
                counts[account_id] += len(line.row)
                best[account_id] = min(best.get(account_id, entry), entry, key=lambda e: e[:2])
        return {account_id: (entry[2], counts[account_id]) for account_id, entry in best.items()}

    def goes_before(self, entry: Entry, task: WaitingTask) -> bool:
        return entry[:2] < (self._order.within(task), task.id)

    def _ahead(self, line: TaskGroup, task: WaitingTask) -> int:
        """Samples a large group."""
        place = (self._order.within(task), task.id)
        stride = 1 + len(line.row) // _MOST_LOOKS
        return stride * sum(
            entry[:2] < place and self._tasks.get(entry[1]) is entry[2]
            for entry in line.row.every(stride)
        )

    def _line(self, task: WaitingTask) -> TaskGroup:
        parts = _parts(task, self._has_spans)
        line = self._lines.get(parts)
        if line is None:
            self._numbers += 1
            key = LineKey(*parts)
            line = self._lines[key] = TaskGroup(key, self._shape(key), self._numbers)
        return line

    def _shape(self, key: LineKey) -> Shape:
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
        line = self._lines.get(_parts(task, self._has_spans))
        if line is None:
            return
        line.stale += 1
        if line.stale > 64 and line.stale * 2 > len(line.row):
            line.row.keep(lambda each: self._tasks.get(each[1]) is each[2])
            line.stale = 0


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
