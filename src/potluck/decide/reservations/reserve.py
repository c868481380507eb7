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

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from math import inf

from msgspec import Struct

from potluck.decide.pool.permission import NodePermission
from potluck.decide.pool.suitable_devices import UsableDevices
from potluck.decide.reservations.duration_estimate import attempt_seconds
from potluck.decide.reservations.timetable import Amounts, Timetable, amounts
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


class Claim(Struct):
    """Where and when a task is planned to start."""

    task: WaitingTask
    node_ids: tuple[NodeId, ...]
    start: float
    latest: float
    behind: set[int]  # indexes of the claims that must end before it starts


class Reservation(Struct, frozen=True):
    """What must be free on a node at the latest start of a task."""

    latest: float
    devices: int  # how many of `among`
    among: frozenset[DeviceId]
    resources: Amounts
    task_id: TaskId

    def competes(self, devices: frozenset[DeviceId]) -> bool:
        return _compete(self.among, devices)


def _compete(some: frozenset[DeviceId], others: frozenset[DeviceId]) -> bool:
    """Also if both are the same empty set: such tasks need no GPU, and wait for all else."""
    return some is others or not some.isdisjoint(others)


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
        self.changes = 0  # of what reservations permit
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
        if on is not None or task.id in self._starts:
            # Not submitted, or not delayed by its own reservation: unlike all others.
            own_rooms = self._find_rooms(node_id, now, task.id)
            return self._permits(task, node_id, on or self._on, (own_rooms, end))
        rooms = self._known.get(node_id)
        if rooms is None or rooms.now != now:
            rooms = _Rooms(now, self._find_rooms(node_id, now, None), {})
            self._known[node_id] = rooms
        if asked.alike is None:
            asked.alike = (self._alike(task), end)
        verdict = rooms.verdicts.get(asked.alike)
        if verdict is None:
            verdict = self._permits(task, node_id, self._on, (rooms.rooms, end))
            rooms.verdicts[asked.alike] = verdict
        return verdict

    def _node_changed(self, node_id: NodeId) -> None:
        if node_id in self._kept:
            self.changes += 1
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
                if usable is None or _compete(room.among, usable.whole):
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
        board = _Board(self._timetable, now)
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
        self.changes += 1
        self._starts = {claim.task.id: claim.start for claim in claims}
        return claims


def _rest(free: Amounts, owed: list[Amounts]) -> Amounts:
    cores, memory, disk = free
    for each in owed:
        cores, memory, disk = cores - each[0], memory - each[1], disk - each[2]
    return cores, memory, disk


class Permission(NodePermission):
    """On which nodes a task violates no reservation."""

    __slots__ = ("_reservations", "alike", "end", "now", "on", "task")

    def __init__(
        self, reservations: Reservations, task: WaitingTask, now: float, on: SuitableOn | None
    ) -> None:
        self._reservations = reservations
        self.task = task
        self.now = now
        self.end = now + attempt_seconds(task)
        self.on = on
        self.alike: tuple[object, float] | None = None  # what it has in common with other tasks

    def __call__(self, node_id: NodeId) -> bool:
        return self._reservations.permits(self, node_id)

    @property
    def limited(self) -> frozenset[NodeId]:
        return self._reservations.node_ids

    @property
    def stamp(self) -> object:
        own = self.task.id if self._reservations.is_unlike_others(self.task) else None
        return (self.now, self.end, self._reservations.changes, own)


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


class _Slot(Struct):
    free_at: float
    device_id: DeviceId
    last_claim: int | None = None


class _Board:
    """When the devices of each node are free, after running attempts and the claims so far."""

    def __init__(self, timetable: Timetable, now: float) -> None:
        self._timetable = timetable
        self._now = now
        self._slots: dict[NodeId, list[_Slot]] = {}  # only of nodes with a claim
        self._ends: dict[NodeId, list[float]] = {}  # of the devices of nodes without one
        # Of these nodes: claimed resources with their end and claim, and the claims that come first
        # on some devices, with how many and which devices suit.
        self._claimed: dict[NodeId, list[tuple[float, Amounts, int]]] = {}
        self._first: dict[NodeId, dict[int, tuple[int, frozenset[DeviceId]]]] = {}

    def place(
        self, task: WaitingTask, suitable: dict[NodeId, UsableDevices], number: int
    ) -> Claim | None:
        if len(suitable) < task.nodes:
            return None
        chosen = self._choose(task, suitable)
        start = max(self._now, chosen[-1][0])
        end = start + attempt_seconds(task)
        behind: set[int] = set()
        for _, node_id in chosen:
            behind |= self._occupy(task, (node_id, suitable[node_id]), (start, end, number))
        return Claim(task, tuple(node_id for _, node_id in chosen), start, start, behind)

    def kept(self, claims: list[Claim]) -> dict[NodeId, list[Reservation]]:
        kept: dict[NodeId, list[Reservation]] = {}
        for node_id, firsts in self._first.items():
            kept[node_id] = sorted(
                (
                    Reservation(claim.latest, count, among, amounts(task.requirements), task.id)
                    for number, (count, among) in firsts.items()
                    for claim, task in [(claims[number], claims[number].task)]
                ),
                key=lambda each: each.latest,
            )
        return kept

    def _choose(
        self, task: WaitingTask, suitable: dict[NodeId, UsableDevices]
    ) -> list[tuple[float, NodeId]]:
        """The nodes where it can start the soonest.

        Ordered by their devices; cores, memory and disk are checked only for the best nodes.
        """
        times = self._times(task, suitable)
        heapq.heapify(times)
        resources = amounts(task.requirements)
        chosen: list[tuple[float, NodeId]] = []
        while len(chosen) < task.nodes:
            at, node_id, is_sure = heapq.heappop(times)
            if is_sure:
                chosen.append((at, node_id))
                continue
            claimed = [(end, had) for end, had, _ in self._claimed.get(node_id, ())]
            from_now = max(at, self._now)
            resources_at_time = self._timetable.resources_at(node_id, resources, from_now, claimed)
            heapq.heappush(
                times, (at if resources_at_time == from_now else resources_at_time, node_id, True)
            )
        return chosen

    def _times(
        self, task: WaitingTask, suitable: dict[NodeId, UsableDevices]
    ) -> list[tuple[float, NodeId, bool]]:
        """When enough devices of each node are free. In one piece, as there are many nodes."""
        wanted = task.requirements.device_count
        ends = self._ends
        times: list[tuple[float, NodeId, bool]] = []
        for node_id, usable in suitable.items():
            count = wanted - usable.shared
            if count <= 0:
                times.append((0.0, node_id, False))
            elif usable.has_all and (all_ends := ends.get(node_id)):
                times.append((all_ends[count - 1], node_id, False))
            else:
                times.append((self._soonest(node_id, usable, count), node_id, False))
        return times

    def _soonest(self, node_id: NodeId, usable: UsableDevices, count: int) -> float:
        """When `count` of these devices are free."""
        slots = self._slots.get(node_id)
        if slots is None:
            times = self._timetable.free_at(node_id)
            if usable.has_all:
                self._ends[node_id] = [end for end, _ in times]
                return times[count - 1][0]
            return [end for end, device_id in times if device_id in usable.whole][count - 1]
        return [slot.free_at for slot in slots if slot.device_id in usable.whole][count - 1]

    def _occupy(
        self,
        task: WaitingTask,
        place: tuple[NodeId, UsableDevices],
        claim: tuple[float, float, int],
    ) -> set[int]:
        """Takes the devices that become free last before the start; returns the claims before."""
        (node_id, usable), (start, end, number) = place, claim
        slots = self._slots.get(node_id)
        if slots is None:
            slots = [_Slot(*each) for each in self._timetable.free_at(node_id)]
            self._slots[node_id] = slots
            self._ends.pop(node_id, None)
        claimed = self._claimed.setdefault(node_id, [])
        count = usable.whole_wanted(task)
        in_time = [
            each for each in slots if each.free_at <= start and each.device_id in usable.whole
        ]
        taken = in_time[-count:] if count else []
        behind = {slot.last_claim for slot in taken if slot.last_claim is not None}
        if all(slot.free_at < start for slot in taken):  # then it waits for cores, memory or disk
            behind |= {before for until, _, before in claimed if until == start}
        fresh = sum(slot.last_claim is None for slot in taken)
        for slot in taken:
            slot.free_at, slot.last_claim = end, number
        slots.sort(key=lambda each: each.free_at)
        if fresh or not (count or behind):
            self._first.setdefault(node_id, {})[number] = (fresh, usable.whole)
        claimed.append((end, amounts(task.requirements), number))
        return behind
