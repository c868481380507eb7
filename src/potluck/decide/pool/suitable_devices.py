"""The devices that would suit a task if they were idle, cached per demand."""

from itertools import islice

from msgspec import Struct

from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.pool.demand import Demand
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.decide.types import FreeNode, WaitingTask
from potluck.model.device import DeviceKind
from potluck.model.ids import DeviceId, NodeId

# Nodes that are checked; all of a large pool would take too long.
_MOST_NODES = 1000
# Cached demands: as many as get reservations at a time, and some for explanations.
_MOST_KNOWN = 512


class UsableDevices(Struct, frozen=True):
    """The devices of a node that suit a task."""

    whole: frozenset[DeviceId]  # GPUs, which a task uses alone
    shared: int  # CPUs, which many tasks share; only their cores can run out
    has_all: bool  # whether `whole` contains all GPUs of the node

    def whole_wanted(self, task: WaitingTask) -> int:
        """How many GPUs the task needs."""
        return max(0, task.requirements.device_count - self.shared)


class Suitability:
    def __init__(self, capacity: PoolCapacity) -> None:
        self._capacity = capacity
        # By positions of the devices on the node, so that equal sets are one object.
        self._parts: dict[NodeCapacity, dict[tuple[int, ...], UsableDevices]] = {}
        self._known: dict[Demand, dict[NodeId, UsableDevices]] = {}

    def forget(self) -> None:
        self._parts.clear()
        self._known.clear()

    @property
    def remembered(self) -> int:
        """The number of cached demands."""
        return len(self._known)

    @property
    def node_count(self) -> int:
        return len(self._capacity.pool)

    def kinds(self) -> list[tuple[FreeNode, int]]:
        """A node of each kind, with their number."""
        examples: dict[tuple[NodeProfile, float], FreeNode] = {}
        counts: dict[tuple[NodeProfile, float], int] = {}
        for capacity in self._capacity.pool:
            kind = (capacity.profile, capacity.rating)
            examples.setdefault(kind, capacity.node)
            counts[kind] = counts.get(kind, 0) + 1
        return [(node, counts[kind]) for kind, node in examples.items()]

    def on(self, task: WaitingTask, node_id: NodeId) -> UsableDevices | None:
        """The suitable devices of a node; None if it could never take the task."""
        capacity = self._capacity.pool.get(node_id)
        demand = self._capacity.demand_of(task)
        known = self._known.get(demand)
        if known is not None and demand.min_reliability is None and node_id in known:
            return known[node_id]
        return (
            self._part(_places(demand, capacity.profile), capacity)
            if capacity is not None and demand.suits(capacity)
            else None
        )

    def devices(self, task: WaitingTask) -> dict[NodeId, UsableDevices]:
        """The suitable devices of each node that could take the task, up to a limit.

        Without the nodes that failed it, unless no other could ever take it, as in `Capacity.find`.
        """
        demand = self._capacity.demand_of(task)
        found = self._known.pop(demand, None)
        if found is None:
            found = self._look(demand)
            if len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
        self._known[demand] = found  # at the end, so that it is evicted last
        if task.failed_on.isdisjoint(found):
            return found
        return {each: found[each] for each in found if each not in task.failed_on} or found

    def _look(self, demand: Demand) -> dict[NodeId, UsableDevices]:
        pool = self._capacity.pool
        nodes = (
            capacity for capacity in pool.nodes(pool.suited(demand)) if demand.is_reliable(capacity)
        )
        places_in: dict[NodeProfile, tuple[int, ...]] = {}
        found: dict[NodeId, UsableDevices] = {}
        for capacity in islice(nodes, _MOST_NODES):
            places = places_in.get(capacity.profile)
            if places is None:
                places = places_in[capacity.profile] = _places(demand, capacity.profile)
            found[capacity.node.id] = self._part(places, capacity)
        return found

    def _part(self, places: tuple[int, ...], capacity: NodeCapacity) -> UsableDevices:
        parts = self._parts.get(capacity)
        if parts is None:
            parts = self._parts[capacity] = {}
        found = parts.get(places)
        if found is None:
            found = parts[places] = usable_devices(capacity.node, places)
        return found


def _places(demand: Demand, profile: NodeProfile) -> tuple[int, ...]:
    devices = demand.devices(profile)
    assert not isinstance(devices, Refusal)
    return tuple([each.position for each in devices])


def usable_devices(node: FreeNode, places: tuple[int, ...]) -> UsableDevices:
    gpus = frozenset(each.id for each in node.devices if each.kind is DeviceKind.GPU)
    whole = gpus.intersection(node.devices[place].id for place in places)
    return UsableDevices(whole, len(places) - len(whole), whole == gpus)
