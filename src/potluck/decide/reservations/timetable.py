"""The expected ends of running attempts per node, and the resources that are free then.

An attempt that exceeds its expected end is extended, each time by twice as much, so that a wrong
estimate is corrected. Most nodes are not asked about for long, so a node is extended when it is
asked about, by all looks since the last time, one after the other.
"""

from bisect import bisect_left
from collections.abc import Callable
from math import inf

from msgspec.structs import replace

from potluck.decide.types import FreeNode, RunningAttempt
from potluck.model.device import DeviceKind
from potluck.model.ids import AttemptId, DeviceId, NodeId
from potluck.model.task import Requirements

_NEVER = 0.0
# Looks that some node has not seen, before all nodes are extended.
_MOST_LOOKS = 2048

# Cores, memory and disk.
Amounts = tuple[float, float, float]


def amounts(needed: Requirements) -> Amounts:
    return needed.cores, needed.memory_bytes, needed.disk_bytes


class Timetable:
    def __init__(self, extension_seconds: float = 60.0) -> None:
        self._extension_seconds = extension_seconds
        self._devices: dict[NodeId, tuple[DeviceId, ...]] = {}
        self._running: dict[NodeId, dict[AttemptId, RunningAttempt]] = {}
        self._ends: dict[NodeId, dict[AttemptId, float]] = {}  # expected, with all extensions
        self._node_of: dict[AttemptId, NodeId] = {}
        self._planned: set[AttemptId] = set()  # these are not extended
        self._looks: list[float] = []  # in order of time
        self._seen: dict[NodeId, int] = {}  # how many of the looks the node was extended by
        self._first_end: dict[NodeId, float] = {}  # no attempt to extend ends sooner
        self._sizes: dict[NodeId, Amounts] = {}
        self._free_at: dict[NodeId, list[tuple[float, DeviceId]]] = {}
        self._given_back: dict[NodeId, list[tuple[float, Amounts]]] = {}
        self._watchers: list[Callable[[NodeId], None]] = []

    def watch(self, on_change: Callable[[NodeId], None]) -> None:
        """Calls it whenever a node or its attempts have changed."""
        self._watchers.append(on_change)

    def put_node(self, node: FreeNode) -> None:
        self._devices[node.id] = tuple(
            device.id for device in node.devices if device.kind is DeviceKind.GPU
        )
        self._sizes[node.id] = (node.cores, node.memory_bytes or inf, node.disk_bytes or inf)
        self._forget(node.id)

    def drop_node(self, node_id: NodeId) -> None:
        self._devices.pop(node_id, None)
        self._sizes.pop(node_id, None)
        self._forget(node_id)

    def put_planned(self, attempt: RunningAttempt) -> None:
        """Adds an attempt whose expected end is not extended, as it will soon be replaced."""
        self._planned.add(attempt.id)
        self._add(attempt)

    def put(self, attempt: RunningAttempt) -> None:
        node_id = attempt.node_id
        self._extend(node_id)  # looks until now do not concern it
        self._planned.discard(attempt.id)
        self._first_end[node_id] = min(self._first_end.get(node_id, inf), attempt.expected_end)
        self._add(attempt)

    def _add(self, attempt: RunningAttempt) -> None:
        attempt_id, node_id = attempt.id, attempt.node_id
        attempts = self._running.get(node_id)
        if attempts is None:
            attempts = self._running[node_id] = {}
            self._ends[node_id] = {}
        attempts[attempt_id] = attempt
        self._ends[node_id][attempt_id] = attempt.expected_end
        self._node_of[attempt_id] = node_id
        self._forget(node_id)

    @property
    def remembered(self) -> int:
        """The number of stored looks."""
        return len(self._looks)

    def count_on(self, node_id: NodeId) -> int:
        return len(self._running.get(node_id, ()))

    def get(self, attempt_id: AttemptId) -> RunningAttempt | None:
        node_id = self._node_of.get(attempt_id)
        if node_id is None:
            return None
        self._extend(node_id)
        attempt, end = self._running[node_id][attempt_id], self._ends[node_id][attempt_id]
        return attempt if attempt.expected_end == end else replace(attempt, expected_end=end)

    def drop(self, attempt_id: AttemptId) -> RunningAttempt | None:
        node_id = self._node_of.pop(attempt_id, None)
        if node_id is None:
            return None
        self._forget(node_id)
        self._planned.discard(attempt_id)
        attempts = self._running[node_id]
        attempt = attempts.pop(attempt_id)
        del self._ends[node_id][attempt_id]
        if not attempts:  # nodes come and go
            del self._running[node_id]
            del self._ends[node_id]
            self._seen.pop(node_id, None)
            self._first_end.pop(node_id, None)
        return attempt

    def look(self, now: float) -> None:
        """Extends attempts that have exceeded their expected end."""
        looks = self._looks
        if len(looks) >= _MOST_LOOKS or (looks and now < looks[-1]):
            for node_id in self._running:
                self._extend(node_id)
            looks.clear()
            self._seen.clear()
        looks.append(now)

    def _extend(self, node_id: NodeId) -> None:
        """Extends the attempts of a node by the looks that it has not seen."""
        looks, seen = self._looks, self._seen.get(node_id, 0)
        if seen == len(looks):
            return
        self._seen[node_id] = len(looks)
        if self._first_end.get(node_id, inf) > looks[-1]:
            return
        ends, planned, first_end, last_look = self._ends[node_id], self._planned, inf, looks[-1]
        for attempt_id, end in ends.items():
            if end <= last_look:
                if attempt_id in planned:
                    continue
                end = ends[attempt_id] = self._extended(end, seen)
            if end < first_end:
                first_end = end
        self._first_end[node_id] = first_end
        self._forget(node_id)

    def _extended(self, end: float, seen: int) -> float:
        """The end after the looks that follow the seen ones: each extends it if it has passed."""
        looks = self._looks
        while (seen := bisect_left(looks, end, seen)) < len(looks):
            now = looks[seen]
            end = now + max(self._extension_seconds, 2 * (now - end))
            seen += 1
        return end

    def free_at(self, node_id: NodeId) -> list[tuple[float, DeviceId]]:
        """When each GPU of the node will be free, the earliest first; 0 if it is free now.

        Without CPUs, which are shared: their cores are counted with the node's.
        """
        self._extend(node_id)
        known = self._free_at.get(node_id)
        if known is None:
            ends = dict.fromkeys(self._devices.get(node_id, ()), _NEVER)
            end_of = self._ends.get(node_id, {})
            for attempt_id, attempt in self._running.get(node_id, {}).items():
                end = end_of[attempt_id]
                for share in attempt.shares:
                    if ends.get(share.device_id, inf) < end:
                        ends[share.device_id] = end
            known = sorted([(end, device_id) for device_id, end in ends.items()])
            self._free_at[node_id] = known
        return known

    def free_by(self, node_id: NodeId, when: float, devices: frozenset[DeviceId]) -> int:
        """How many of these devices will be free at that time, if nothing new starts."""
        count = 0
        for end, device_id in self.free_at(node_id):
            if end > when:
                break
            count += device_id in devices
        return count

    def resources_by(self, node_id: NodeId, when: float) -> Amounts:
        """The cores, memory and disk that will be free at that time, if nothing new starts."""
        cores, memory, disk = self._sizes.get(node_id, (0, 0, 0))
        for end, had in reversed(self.given_back(node_id)):
            if end <= when:
                break
            cores, memory, disk = cores - had[0], memory - had[1], disk - had[2]
        return cores, memory, disk

    def resources_at(
        self, node_id: NodeId, needed: Amounts, at: float, claimed: list[tuple[float, Amounts]]
    ) -> float:
        """The first time from `at` on at which `wanted` is free besides the claimed resources."""
        held = [each for each in (*self.given_back(node_id), *claimed) if each[0] > at]
        sizes = self._sizes.get(node_id, (0, 0, 0))
        short = [
            sum(had[which] for _, had in held) + needed[which] - size
            for which, size in enumerate(sizes)
        ]
        held.sort(reverse=True)
        while max(short) > 0 and held:
            at, had = held.pop()
            short = [each - back for each, back in zip(short, had, strict=True)]
        return at

    def given_back(self, node_id: NodeId) -> list[tuple[float, Amounts]]:
        """The expected end of each attempt on the node, and the resources it then frees."""
        self._extend(node_id)
        known = self._given_back.get(node_id)
        if known is None:
            end_of = self._ends.get(node_id, {})
            known = self._given_back[node_id] = sorted(
                [
                    (end_of[attempt_id], (each.cores, each.memory_bytes, each.disk_bytes))
                    for attempt_id, each in self._running.get(node_id, {}).items()
                ]
            )
        return known

    def last_end(self, node_id: NodeId) -> float:
        """The expected end of the last attempt on the node."""
        times = self.given_back(node_id)
        return times[-1][0] if times else _NEVER

    def _forget(self, node_id: NodeId) -> None:
        self._free_at.pop(node_id, None)
        self._given_back.pop(node_id, None)
        for on_change in self._watchers:
            on_change(node_id)
