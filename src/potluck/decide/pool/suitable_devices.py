"""Which devices would do for a task, if they were free; remembered for tasks that ask alike."""

from itertools import islice

from msgspec import Struct

from potluck.decide.pool.capacity import Capacity
from potluck.decide.pool.demand import Want
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.decide.types import FreeNode, WaitingTask
from potluck.model.device import DeviceKind
from potluck.model.ids import DeviceId, NodeId

# Among so many nodes a good place is found; looking at all of a large pool would take too long.
_MOST_NODES = 1000
# Askings that are remembered: as many as are laid out at a time, and some for who asks why.
_MOST_KNOWN = 512


class UsableDevices(Struct, frozen=True):
    """The devices of a node that would do for a task."""

    whole: frozenset[DeviceId]  # GPUs, which a task has for itself
    shared: int  # CPUs: many tasks have their parts of one, and only its cores can be short
    has_all: bool  # whether `whole` is all the GPUs that the node has

    def whole_wanted(self, task: WaitingTask) -> int:
        """How many of the GPUs the task must have."""
        return max(0, task.requirements.device_count - self.shared)


class Suitability:
    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        # Parts of a node's devices, by their places on it, the same object for all that ask alike.
        self._parts: dict[NodeCapacity, dict[tuple[int, ...], UsableDevices]] = {}
        self._known: dict[Want, dict[NodeId, UsableDevices]] = {}

    def forget(self) -> None:
        """Other nodes are there than before."""
        self._parts.clear()
        self._known.clear()

    @property
    def remembered(self) -> int:
        """How many askings are kept in mind."""
        return len(self._known)

    @property
    def node_count(self) -> int:
        return len(self._capacity.pool)

    def kinds(self) -> list[tuple[FreeNode, int]]:
        """A node of each kind, and how many there are of it."""
        examples: dict[tuple[NodeProfile, float], FreeNode] = {}
        counts: dict[tuple[NodeProfile, float], int] = {}
        for room in self._capacity.pool:
            kind = (room.profile, room.rating)
            examples.setdefault(kind, room.node)
            counts[kind] = counts.get(kind, 0) + 1
        return [(node, counts[kind]) for kind, node in examples.items()]

    def on(self, task: WaitingTask, node_id: NodeId) -> UsableDevices | None:
        """The devices of a node that would do; None if it could never take the task."""
        room = self._capacity.pool.get(node_id)
        want = self._capacity.want_of(task)
        return self._part(want, room) if room is not None and want.suits(room) else None

    def devices(self, task: WaitingTask) -> dict[NodeId, UsableDevices]:
        """For each node that could take the task, or for enough of them: its devices that would do.

        Not the nodes that failed it, unless no other could ever take it: as in `Capacity.find`.
        """
        want = self._capacity.want_of(task)
        found = self._known.pop(want, None)
        if found is None:
            found = self._look(want)
            if len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
        self._known[want] = found  # the last one, which is forgotten last
        if task.failed_on.isdisjoint(found):
            return found
        return {each: found[each] for each in found if each not in task.failed_on} or found

    def _look(self, want: Want) -> dict[NodeId, UsableDevices]:
        pool = self._capacity.pool
        rooms = (room for room in pool.rooms(pool.suited(want)) if want.is_reliable(room))
        return {room.node.id: self._part(want, room) for room in islice(rooms, _MOST_NODES)}

    def _part(self, want: Want, room: NodeCapacity) -> UsableDevices:
        devices = want.devices(room.profile)
        assert not isinstance(devices, Refusal)
        places = tuple([each.position for each in devices])
        parts = self._parts.setdefault(room, {})
        if places not in parts:
            parts[places] = usable_devices(room.node, places)
        return parts[places]


def usable_devices(node: FreeNode, places: tuple[int, ...]) -> UsableDevices:
    """Those in these places of a node."""
    gpus = frozenset(each.id for each in node.devices if each.kind is DeviceKind.GPU)
    whole = gpus.intersection(node.devices[place].id for place in places)
    return UsableDevices(whole, len(places) - len(whole), whole == gpus)
