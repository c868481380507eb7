"""Fragmentation gradient descent: places a task where other tasks lose the least usable capacity.

The value of a node is the share of its free devices that the mix of recent tasks could use, on
average (`usable_share.py`); the cost of a placement is the value that the node loses. A gap that
only this task fits costs nothing; the last whole device that a large task needs is expensive. Tasks
that few nodes could serve have more weight, so that these nodes stay free for them.

Three things make it work. Small differences are ignored, and ties go to the first node in the fixed
order, so nodes are filled one after the other. Only the first few suitable nodes are scored, with
the same effect and at little cost. Cores and memory count too, because devices without free cores
are unusable.

After Weng et al., "Beware of Fragmentation" (USENIX ATC '23); docs/decisions/0021-placement.md has
the differences and figures.
"""

from collections.abc import Sequence

from potluck.decide.placement.interface import Placement, PlacementChoice
from potluck.decide.placement.task_mix import TaskMix
from potluck.decide.placement.usable_share import UsableShare
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.task import Requirements

_MOST_KNOWN = 10_000


class Fragmentation(Placement):
    looks_at = 8
    tolerance = 130.0  # thousandths of a device

    def __init__(self) -> None:
        self._mix = TaskMix()
        self._shares: dict[NodeProfile, UsableShare] = {}
        # The value of each node as it is, with its version.
        self._known: dict[NodeCapacity, tuple[int, tuple[float, float, int, int]]] = {}

    def learn(self, requirements: Requirements, count: int) -> None:
        self._mix.add(requirements, count)
        self.is_due = self._mix.is_new

    def prepare(self, profiles: Sequence[NodeProfile]) -> None:
        self._mix.weigh(profiles)
        self._shares.clear()
        self._known.clear()
        self.epoch += 1
        self.is_due = False

    def score(self, choice: PlacementChoice) -> float:
        demand, capacity = choice.demand, choice.capacity
        share = self._shares.get(capacity.profile) or self._look_at(capacity.profile)
        known = self._known.get(capacity)
        if known is None or known[0] != capacity.version:
            known = self._known[capacity] = (capacity.version, share.of(capacity))
        value, devices, free, whole = known[1]
        for each in choice.taken:
            table = share.devices.get(each.position)
            if table is not None:
                milli = capacity.milli[each.position]
                devices += table[milli - each.milli] - table[milli]
                free -= each.milli
                whole -= milli == WHOLE_DEVICE_MILLI
        cores = capacity.cores - demand.cores
        memory_bytes = capacity.memory_bytes - demand.memory_bytes
        return value - share.value(devices, whole, free, cores, memory_bytes)

    def _look_at(self, profile: NodeProfile) -> UsableShare:
        if len(self._shares) >= _MOST_KNOWN:  # nodes come and go
            self._shares.clear()
            self._known.clear()
        share = self._shares[profile] = UsableShare(profile, self._mix.classes())
        return share
