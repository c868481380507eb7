"""Fragmentation gradient descent: where the least of what others could use is lost.

What a room is worth is how much of its free devices the tasks that people ask for could use, on
average over the mix of recent tasks (`worth.py`); a placement costs what the room loses of it. A
hole that only this task fits is free, the last whole device of a node that a large task needs is
dear.
Tasks with few nodes that could ever serve them count for more, so that these are kept for them.

Three things make that work. Small differences count as none, and equals go to the first node in the
fixed order, so nodes are filled one after the other and the others stay whole. Only the first few
nodes that would do are looked at, which does the same, and makes a decision cheap. And cores and
memory count too: devices without the cores to use them are lost as well.

After Weng et al., "Beware of Fragmentation" (USENIX ATC '23); docs/decisions/0021-placement.md has
what is different here, and figures.
"""

from collections.abc import Sequence

from potluck.decide.placement.interface import Placement, PlacementChoice
from potluck.decide.placement.task_mix import Mix
from potluck.decide.placement.usable_share import Worth
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.task import Requirements

_MOST_KNOWN = 10_000


class Fragmentation(Placement):
    looks_at = 8
    tolerance = 130.0  # thousandths of a device

    def __init__(self) -> None:
        self._mix = Mix()
        self._worth: dict[NodeProfile, Worth] = {}
        # What rooms are worth as they are, with the version that they had.
        self._known: dict[NodeCapacity, tuple[int, tuple[float, float, int, int]]] = {}

    def learn(self, requirements: Requirements, count: int) -> None:
        self._mix.add(requirements, count)
        self.is_due = self._mix.is_new

    def prepare(self, profiles: Sequence[NodeProfile]) -> None:
        self._mix.weigh(profiles)
        self._worth.clear()
        self._known.clear()
        self.epoch += 1
        self.is_due = False

    def score(self, choice: PlacementChoice) -> float:
        want, room = choice.want, choice.room
        worth = self._worth.get(room.profile) or self._look_at(room.profile)
        known = self._known.get(room)
        if known is None or known[0] != room.version:
            known = self._known[room] = (room.version, worth.of(room))
        value, devices, free, whole = known[1]
        for each in choice.taken:
            table = worth.devices.get(each.position)
            if table is not None:
                milli = room.milli[each.position]
                devices += table[milli - each.milli] - table[milli]
                free -= each.milli
                whole -= milli == WHOLE_DEVICE_MILLI
        cores = room.cores - want.cores
        memory_bytes = room.memory_bytes - want.memory_bytes
        return value - worth.value(devices, whole, free, cores, memory_bytes)

    def _look_at(self, profile: NodeProfile) -> Worth:
        if len(self._worth) >= _MOST_KNOWN:  # nodes that come and go are not remembered for ever
            self._worth.clear()
            self._known.clear()
        worth = self._worth[profile] = Worth(profile, self._mix.classes())
        return worth
