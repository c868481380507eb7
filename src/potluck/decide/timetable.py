"""When what runs will probably be over, node by node.

An attempt that is still there after its expected end gets more time, twice as much at each look, so
that a wrong guess is corrected without being believed for ever.
"""

import heapq

import msgspec

from potluck.decide.snapshot import FreeNode, RunningAttempt
from potluck.model.ids import AttemptId, DeviceId, NodeId

_LEAST_MORE_SECONDS = 60.0
_NEVER = 0.0
# More ends than twice what runs and so many: most of them are of attempts that were put again.
_MOST_STALE = 1000


class Timetable:
    def __init__(self) -> None:
        self._devices: dict[NodeId, tuple[DeviceId, ...]] = {}
        self._running: dict[NodeId, dict[AttemptId, RunningAttempt]] = {}
        self._node_of: dict[AttemptId, NodeId] = {}
        self._ends: list[tuple[float, AttemptId]] = []
        self._free_at: dict[NodeId, list[tuple[float, DeviceId]]] = {}

    def put_node(self, node: FreeNode) -> None:
        self._devices[node.id] = tuple(device.id for device in node.devices)
        self._free_at.pop(node.id, None)

    def drop_node(self, node_id: NodeId) -> None:
        self._devices.pop(node_id, None)
        self._free_at.pop(node_id, None)

    def put(self, attempt: RunningAttempt) -> None:
        self._running.setdefault(attempt.node_id, {})[attempt.id] = attempt
        self._node_of[attempt.id] = attempt.node_id
        self._free_at.pop(attempt.node_id, None)
        heapq.heappush(self._ends, (attempt.expected_end, attempt.id))
        if len(self._ends) > 2 * len(self._node_of) + _MOST_STALE:
            self._ends = [
                (each.expected_end, each.id)
                for attempts in self._running.values()
                for each in attempts.values()
            ]
            heapq.heapify(self._ends)

    @property
    def remembered(self) -> int:
        """How many ends are kept in mind: never many more than what runs."""
        return len(self._ends)

    def get(self, attempt_id: AttemptId) -> RunningAttempt | None:
        node_id = self._node_of.get(attempt_id)
        return None if node_id is None else self._running[node_id][attempt_id]

    def drop(self, attempt_id: AttemptId) -> RunningAttempt | None:
        node_id = self._node_of.pop(attempt_id, None)
        if node_id is None:
            return None
        self._free_at.pop(node_id, None)
        return self._running[node_id].pop(attempt_id)

    def look(self, now: float) -> None:
        """Gives more time to what should be over and is not."""
        while self._ends and self._ends[0][0] <= now:
            end, attempt_id = heapq.heappop(self._ends)
            attempt = self.get(attempt_id)
            if attempt is not None and attempt.expected_end == end:
                more = max(_LEAST_MORE_SECONDS, 2 * (now - end))
                self.put(msgspec.structs.replace(attempt, expected_end=now + more))

    def free_at(self, node_id: NodeId) -> list[tuple[float, DeviceId]]:
        """When each device of the node will be free, the first free first; 0 if it is now."""
        known = self._free_at.get(node_id)
        if known is None:
            ends = dict.fromkeys(self._devices.get(node_id, ()), _NEVER)
            for attempt in self._running.get(node_id, {}).values():
                for share in attempt.shares:
                    ends[share.device_id] = max(
                        ends.get(share.device_id, _NEVER), attempt.expected_end
                    )
            known = sorted((end, device_id) for device_id, end in ends.items())
            self._free_at[node_id] = known
        return known

    def free_by(self, node_id: NodeId, when: float) -> int:
        """How many of the node's devices will be free at that time, if nothing new comes."""
        count = 0
        for end, _ in self.free_at(node_id):
            if end > when:
                break
            count += 1
        return count

    def last_end(self, node_id: NodeId) -> float:
        """When all that runs on the node will be over."""
        times = self.free_at(node_id)
        return times[-1][0] if times else _NEVER
