"""Reservations for tasks that have waited long, and which tasks may still go before them.

Each of these tasks is planned in turn on the nodes where it can start the soonest after the running
attempts. That gives it a start time and, because a start is guaranteed within a certain time, a
latest start; a later reservation on the same devices moves it forward. Another task may use the
devices if it ends before the latest start. So devices are kept free as late as is safe, and a task
that was in time when it was first planned is not delayed by a shorter one, if estimates are right.

A reservation covers GPUs, cores, memory and disk: a task that would leave too little of any is
refused, and one that uses other devices and leaves enough of the rest is not.

In an order without a guarantee the latest start is the soonest one: backfilling, in which no task
may delay the first in order.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from math import inf

from msgspec import Struct

from potluck.decide.pool.permission import NodePermission
from potluck.decide.pool.suitable_devices import UsableDevices
from potluck.decide.reservations.board import Board, Claim, Reservation, compete
from potluck.decide.reservations.duration_estimate import attempt_seconds
from potluck.decide.reservations.timetable import Amounts, Timetable
from potluck.decide.types import WaitingTask
from potluck.model.bounded_types import MOST_DEVICES
from potluck.model.ids import AccountId, DeviceId, NodeId, TaskId
from potluck.model.task import Requirements

# The devices of each node that suit a task.
Suitable = Callable[[WaitingTask], dict[NodeId, UsableDevices]]
# Those of one node; None if it could never take the task.
SuitableOn = Callable[[WaitingTask, NodeId], UsableDevices | None]

# After this many different requirements of an account that no node could serve, it gets no more.
_MOST_MISSES = 100


class ReserveSettings(Struct, frozen=True):
    after_seconds: float = 600.0  # of waiting for a reservation, in an order without a guarantee
    promise_seconds: float = 60 * 3600.0  # guaranteed start, in an order with a guarantee
    every_seconds: float = 60.0  # how often reservations are renewed
    most: int = 400  # tasks with reservations
    most_without_promise: int = 16  # the same in an order without a guarantee
    most_of_account: int = 4  # while other accounts wait for reservations
    extension_seconds: float = 60.0  # least extension of an attempt that exceeds its estimate

    @property
    def soon_seconds(self) -> float:
        """Of waiting, after which a task gets a reservation."""
        return self.promise_seconds * 0.4

    @property
    def urgent_seconds(self) -> float:
        """Of waiting, after which a task starts before shorter ones as soon as possible."""
        return self.promise_seconds * 0.8


class _Room(Struct, frozen=True, gc=False):
    """What a task may use on a node without delaying a reservation or the ones before it."""

    latest: float  # start of the reservation: a task that ends sooner may use all
    devices: int
    among: frozenset[DeviceId]
    resources: Amounts


class _Rooms(Struct):
    """The rooms of a node at a time, and which tasks they permit."""

    now: float
    rooms: list[_Room]
    verdicts: dict[tuple[object, float], bool]  # by what tasks have in common, and their end


class Reservations:
    def __init__(
        self,
        timetable: Timetable,
        suitable: Suitable,
        on: SuitableOn,
        alike: Callable[[WaitingTask], object],
    ) -> None:
        """Tasks that are `alike` have the same requirements, and suit the same devices."""
        self._timetable = timetable
        self._suitable = suitable
        self._on = on
        self._alike = alike
        self._kept: dict[NodeId, list[Reservation]] = {}
        self._starts: dict[TaskId, float] = {}
        self._known: dict[NodeId, _Rooms] = {}  # of nodes with reservations
        self.node_ids: frozenset[NodeId] = frozenset()  # with reservations
        self.plans = 0
        self.changed: list[NodeId] = []  # since the last plan, in order, with reservations
        timetable.watch(self._node_changed)

    def __bool__(self) -> bool:
        return bool(self._kept)

    def is_unlike_others(self, task: WaitingTask) -> bool:
        """Whether it has a reservation, which does not delay the task itself."""
        return task.id in self._starts

    def start_of(self, task_id: TaskId) -> float | None:
        """The planned start of a task with a reservation."""
        return self._starts.get(task_id)

    def permission(
        self, task: WaitingTask, now: float, on: SuitableOn | None = None
    ) -> "Permission | None":
        """A check of the nodes on which the task violates no reservation; None if on all."""
        return Permission(self, task, now, on) if self._kept else None

    def permits(self, asked: "Permission", node_id: NodeId) -> bool:
        if node_id not in self._kept:
            return True
        task, now, end, on = asked.task, asked.now, asked.end, asked.on
        if asked.is_of_one_task:
            own_rooms = self._find_rooms(node_id, now, task.id)
            return self._permits(task, node_id, on or self._on, (own_rooms, end))
        rooms = self._known.get(node_id)
        if rooms is None or rooms.now != now:
            rooms = _Rooms(now, self._find_rooms(node_id, now, None), {})
            self._known[node_id] = rooms
        alike = asked.alike
        if alike is None:
            alike = asked.alike = (self._alike(task), end)
        verdict = rooms.verdicts.get(alike)
        if verdict is None:
            verdict = self._permits(task, node_id, self._on, (rooms.rooms, end))
            rooms.verdicts[alike] = verdict
        return verdict

    def _node_changed(self, node_id: NodeId) -> None:
        if node_id in self._kept:
            self.changed.append(node_id)
            self._known.pop(node_id, None)

    def _permits(
        self, task: WaitingTask, node_id: NodeId, on: SuitableOn, until: tuple[list[_Room], float]
    ) -> bool:
        rooms, end = until
        requirements = task.requirements
        for room in rooms:
            if room.latest >= end:
                return True
            if requirements.device_count > room.devices:
                usable = on(task, node_id)
                if usable is None or compete(room.among, usable.whole):
                    return False
            cores, memory_bytes, disk_bytes = room.resources
            if (
                requirements.cores > cores
                or requirements.memory_bytes > memory_bytes
                or requirements.disk_bytes > disk_bytes
            ):
                return False
        return True

    def _find_rooms(self, node_id: NodeId, now: float, own_id: TaskId | None) -> list[_Room]:
        """By the latest start of the reservations, without that of the task itself."""
        rooms: list[_Room] = []
        owed: list[Reservation] = []
        for kept in self._kept[node_id]:
            if kept.task_id == own_id:
                # A later latest start may still permit the task.
                rooms.append(_Room(kept.latest, MOST_DEVICES, kept.among, (inf, inf, inf)))
                continue
            owed.append(kept)
            when = max(kept.latest, now)
            devices = self._timetable.free_by(node_id, when, kept.among)
            devices -= sum(each.devices for each in owed if each.competes(kept.among))
            free = self._timetable.resources_by(node_id, when)
            rest = _rest(free, [each.resources for each in owed])
            rooms.append(_Room(kept.latest, devices, kept.among, rest))
        return rooms

    def plan(
        self, tasks: Iterable[WaitingTask], promise_seconds: float | None, now: float
    ) -> list[Claim]:
        """Plans the tasks in their order; with a guarantee, none needs to start sooner."""
        board = Board(self._timetable, now)
        claims: list[Claim] = []
        for task in tasks:
            claim = board.place(task, self._suitable(task), len(claims))
            if claim is not None:
                if promise_seconds is not None:
                    claim.latest = max(claim.start, task.submitted_at + promise_seconds)
                claims.append(claim)
        _pull_forward(claims)
        self._kept = board.kept(claims)
        self.node_ids = frozenset(self._kept)
        self._known.clear()
        self.plans += 1
        self.changed = []
        self._starts = {claim.task.id: claim.start for claim in claims}
        return claims


def _rest(free: Amounts, owed: list[Amounts]) -> Amounts:
    cores, memory, disk = free
    for each in owed:
        cores, memory, disk = cores - each[0], memory - each[1], disk - each[2]
    return cores, memory, disk


class Permission(NodePermission):
    """On which nodes a task violates no reservation. Serves one search: it knows the moment and the
    reservations of then. What it answers is kept for other searches by its stamp, not by itself."""

    __slots__ = ("_reservations", "alike", "now", "on", "task")

    def __init__(
        self, reservations: Reservations, task: WaitingTask, now: float, on: SuitableOn | None
    ) -> None:
        self._reservations = reservations
        self.task = task
        self.now = now
        self.end = now + attempt_seconds(task)
        self.on = on
        # Not submitted, or not delayed by its own reservation: unlike all others.
        self.is_of_one_task = on is not None or reservations.is_unlike_others(task)
        self.alike: tuple[object, float] | None = None  # what it has in common with other tasks
        self.limited = reservations.node_ids
        self.stamp = (now, reservations.plans)
        self.changes = len(reservations.changed)

    def __call__(self, node_id: NodeId) -> bool:
        return self._reservations.permits(self, node_id)

    def changed_since(self, changes: int) -> list[NodeId]:
        return self._reservations.changed[changes : self.changes]


class Chances:
    """Whether any node could ever take a task, cached by account and requirements."""

    def __init__(self, suitable: Suitable) -> None:
        self._suitable = suitable
        self._known: dict[tuple[AccountId, Requirements], bool] = {}
        self._misses: Counter[AccountId] = Counter()

    def has(self, task: WaitingTask) -> bool:
        key = (task.account_id, task.requirements)
        if key not in self._known:
            if self._misses[task.account_id] >= _MOST_MISSES:
                return False
            self._known[key] = bool(self._suitable(task))
            self._misses[task.account_id] += not self._known[key]
        return self._known[key]


def first_of_each(
    tasks: Iterable[WaitingTask], settings: ReserveSettings, chances: Chances
) -> list[WaitingTask]:
    """The first tasks that some node could ever take, with a limit per account.

    So no account can take all reservations with high priorities or impossible requirements.
    """
    most = settings.most_without_promise
    first: list[tuple[int, WaitingTask]] = []
    more: list[tuple[int, WaitingTask]] = []  # of accounts at their limit
    served: Counter[AccountId] = Counter()
    for number, task in enumerate(tasks):
        if len(first) >= most:
            break
        has_part = served[task.account_id] >= settings.most_of_account
        if has_part and len(more) >= most:
            continue
        if chances.has(task):
            served[task.account_id] += 1
            (more if has_part else first).append((number, task))
    return [task for _, task in sorted([*first, *more][:most])]


def _pull_forward(claims: list[Claim]) -> None:
    """Moves the latest start of each claim before those of the claims behind it."""
    for claim in reversed(claims):
        for index in claim.behind:
            before = claims[index]
            in_time = claim.latest - attempt_seconds(before.task)
            before.latest = min(before.latest, max(before.start, in_time))
