"""Reservations: what is promised to those that have waited long, and who may still go before them.

Long waiting tasks are laid out over the pool in turn, each where it can start the soonest once what
runs there is over. That gives each of them a time to start and, since it was promised a start
within a certain time, a latest time; what stands behind it on the same devices pulls that forward.
Another task may use these devices as long as it ends before the latest time. So devices are kept
free as late as is safe, and nothing that was in time when it was first laid out becomes late
because of a shorter task (estimates permitting).

Where an order makes no promise, the latest time is the soonest one: backfilling, in which nobody
may delay the first in line.
"""

import heapq
from collections.abc import Callable, Iterable
from itertools import islice

from msgspec import Struct

from potluck.decide.estimate import run_seconds
from potluck.decide.snapshot import WaitingTask
from potluck.decide.timetable import Timetable
from potluck.model.ids import DeviceId, NodeId, TaskId

# The devices of each node that would do for a task, if they were free.
Suitable = Callable[[WaitingTask], dict[NodeId, frozenset[DeviceId]]]

# Among so many nodes a good place is found; looking at all of a large pool would take too long.
_MOST_NODES = 1000


class ReserveSettings(Struct, frozen=True):
    after_seconds: float = (
        600.0  # who has waited so long is laid out, in an order that promises not
    )
    promise_seconds: float = 60 * 3600.0  # in an order that promises, it starts within this time
    every_seconds: float = 60.0  # how often all is laid out anew
    most: int = 400  # tasks that are laid out at a time
    most_without_promise: int = 16
    soon_part: float = 0.5
    urgent_part: float = 0.8

    @property
    def soon_seconds(self) -> float:
        """Who has waited so long is laid out."""
        return self.promise_seconds * 0.4

    @property
    def urgent_seconds(self) -> float:
        """Who has waited so long is started before shorter ones as soon as it can be."""
        return self.promise_seconds * 0.8


class Claim(Struct):
    """Where and when a task is to start."""

    task: WaitingTask
    node_ids: tuple[NodeId, ...]
    start: float
    latest: float
    behind: set[int]  # the claims that must be over before it starts


class Kept(Struct, frozen=True):
    """Devices of a node that must be free at a time for a task."""

    latest: float
    devices: int
    task_id: TaskId


class Reservations:
    def __init__(self, timetable: Timetable, suitable: Suitable) -> None:
        self._timetable = timetable
        self._suitable = suitable
        self._kept: dict[NodeId, list[Kept]] = {}
        self._starts: dict[TaskId, float] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def start_of(self, task_id: TaskId) -> float | None:
        """When a task is to start for which devices are kept."""
        return self._starts.get(task_id)

    def permits(self, task: WaitingTask, node_id: NodeId, now: float) -> bool:
        """Whether the task could run on the node without taking what is kept there."""
        end = now + run_seconds(task)
        wanted = task.requirements.device_count
        owed = 0
        for kept in self._kept.get(node_id, ()):
            if kept.latest >= end:
                return True
            if kept.task_id == task.id:
                continue
            owed += kept.devices
            free = self._timetable.free_by(node_id, max(kept.latest, now))
            if free - wanted < owed:
                return False
        return True

    def lay_out(
        self, tasks: Iterable[WaitingTask], promise_seconds: float | None, now: float
    ) -> list[Claim]:
        """Lays the tasks out in their order; one that was promised a start needs none sooner."""
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
        self._starts = {claim.task.id: claim.start for claim in claims}
        return claims


def _pull_forward(claims: list[Claim]) -> None:
    """Who is followed on its devices must start early enough for those behind it."""
    for claim in reversed(claims):
        for index in claim.behind:
            before = claims[index]
            in_time = claim.latest - run_seconds(before.task)
            before.latest = min(before.latest, max(before.start, in_time))


class _Slot(Struct):
    free_at: float
    device_id: DeviceId
    last_claim: int | None = None


class _Board:
    """When the devices of each node are free, with all claims so far laid over what runs."""

    def __init__(self, timetable: Timetable, now: float) -> None:
        self._timetable = timetable
        self._now = now
        self._slots: dict[NodeId, list[_Slot]] = {}  # only of nodes with a claim
        self._first: dict[NodeId, list[int]] = {}  # for each device that is claimed: who is first

    def place(
        self, task: WaitingTask, suitable: dict[NodeId, frozenset[DeviceId]], number: int
    ) -> Claim | None:
        count = task.requirements.device_count
        times = [
            (self._soonest(node_id, devices, count), node_id)
            for node_id, devices in islice(suitable.items(), _MOST_NODES)
        ]
        if len(times) < task.nodes:
            return None
        chosen = [min(times)] if task.nodes == 1 else heapq.nsmallest(task.nodes, times)
        start = max(self._now, chosen[-1][0])
        end = start + run_seconds(task)
        behind: set[int] = set()
        for _, node_id in chosen:
            behind |= self._occupy(node_id, suitable[node_id], count, (start, end, number))
        return Claim(task, tuple(node_id for _, node_id in chosen), start, start, behind)

    def kept(self, claims: list[Claim]) -> dict[NodeId, list[Kept]]:
        kept: dict[NodeId, list[Kept]] = {}
        for node_id, firsts in self._first.items():
            counts = {number: firsts.count(number) for number in firsts}
            kept[node_id] = sorted(
                (
                    Kept(claims[number].latest, count, claims[number].task.id)
                    for number, count in counts.items()
                ),
                key=lambda each: each.latest,
            )
        return kept

    def _soonest(self, node_id: NodeId, devices: frozenset[DeviceId], count: int) -> float:
        """When so many of these devices are free."""
        slots = self._slots.get(node_id)
        if slots is None:
            times = self._timetable.free_at(node_id)
            if len(times) == len(devices):
                return times[count - 1][0]
            return [end for end, device_id in times if device_id in devices][count - 1]
        return [slot.free_at for slot in slots if slot.device_id in devices][count - 1]

    def _occupy(
        self,
        node_id: NodeId,
        devices: frozenset[DeviceId],
        count: int,
        claim: tuple[float, float, int],
    ) -> set[int]:
        """Takes those that are free just in time, and leaves the longer free ones to others."""
        start, end, number = claim
        slots = self._slots.get(node_id)
        if slots is None:
            slots = [_Slot(*each) for each in self._timetable.free_at(node_id)]
            self._slots[node_id] = slots
        in_time = [each for each in slots if each.free_at <= start and each.device_id in devices]
        behind: set[int] = set()
        for slot in in_time[-count:]:
            if slot.last_claim is None:
                self._first.setdefault(node_id, []).append(number)
            else:
                behind.add(slot.last_claim)
            slot.free_at, slot.last_claim = end, number
        slots.sort(key=lambda each: each.free_at)
        return behind
