"""Plans tasks one after the other on the nodes where each can start the soonest."""

import heapq

from msgspec import Struct

from potluck.decide.pool.suitable_devices import UsableDevices
from potluck.decide.reservations.duration_estimate import attempt_seconds
from potluck.decide.reservations.timetable import Amounts, Timetable, amounts
from potluck.decide.types import WaitingTask
from potluck.model.ids import DeviceId, NodeId, TaskId


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
        return compete(self.among, devices)


def compete(some: frozenset[DeviceId], others: frozenset[DeviceId]) -> bool:
    """Also if both are the same empty set: such tasks need no GPU, and wait for all else."""
    return some is others or not some.isdisjoint(others)


class _Slot(Struct):
    free_at: float
    device_id: DeviceId
    last_claim: int | None = None


class Board:
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
