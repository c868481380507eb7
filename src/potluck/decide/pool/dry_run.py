"""A look at the pool for a task that nobody has submitted.

Nothing is remembered of it. What the scheduler keeps in mind about askings decides in which order
nodes stand and when a placement thinks anew, so a look that went the same way would change what is
planned afterwards. Whose a node is is looked at node by node, for the same reason.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.pool.candidates import choices, price_of
from potluck.decide.pool.demand import Usable, Want
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.decide.pool.suitable_devices import UsableDevices, usable_devices
from potluck.decide.types import FreeNode, WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import NodeId


class Market(Struct, frozen=True):
    """What of the pool would do for a task, and what an hour of it costs, node by node."""

    nodes: int = 0
    devices: int = 0
    free_devices: int = 0
    slots: int = 0  # how many such tasks could run at once, if all of it were free
    cheapest_micro_per_hour: int | None = None
    dearest_micro_per_hour: int | None = None


class Chance(Struct, frozen=True):
    """A room that would do now: what it costs, and how much of devices it takes."""

    room: NodeCapacity
    price_micro_per_hour: int
    milli: int


class PoolLook:
    def __init__(self, rooms: Iterable[NodeCapacity], task: WaitingTask) -> None:
        self._rooms = list(rooms)
        self.task = replace(task, requirements=replace(task.requirements, owners=()))
        self._want = Want(self.task)
        self._owners = frozenset(task.requirements.owners)
        self._prices: dict[NodeProfile, tuple[int, int]] = {}
        self.refusals: Counter[Refusal] = Counter()
        self.suited: dict[NodeId, NodeCapacity] = {}
        self.free: list[NodeCapacity] = []
        for room in self._rooms:
            self._see(room)

    def _see(self, room: NodeCapacity) -> None:
        refusal = self._refusal(room)
        if refusal is not None:
            self.refusals[refusal] += 1
        else:
            self.free.append(room)
        if self._is_owned(room) and self._want.suits(room):
            self.suited[room.node.id] = room

    def _refusal(self, room: NodeCapacity) -> Refusal | None:
        """The first wall, in the order in which `feasible.fit` meets them."""
        refusal = self._want.refusal(room, self.task.account_id)
        if refusal is Refusal.OWN_TASKS_ONLY or self._is_owned(room):
            return refusal
        return Refusal.OWNER

    def _is_owned(self, room: NodeCapacity) -> bool:
        return not self._owners or room.node.wallet in self._owners

    def chances(self, may_use: Callable[[NodeId], bool] | None) -> list[Chance]:
        """Where it would have room now, the cheapest first."""
        found = [
            self._chance(room) for room in self.free if may_use is None or may_use(room.node.id)
        ]
        return sorted(found, key=lambda each: each.price_micro_per_hour)

    def _chance(self, room: NodeCapacity) -> Chance:
        """The cheapest of those that a placement would choose from."""
        free = self._want.free(room, self.task.account_id)
        taken = min(choices(self._want, room, free), key=price_of)
        return Chance(room, price_of(taken), sum(each.milli for each in taken))

    def on(self, _: WaitingTask, node_id: NodeId) -> UsableDevices | None:
        """The devices of a node that would do; None if it could never take the task."""
        room = self.suited.get(node_id)
        return None if room is None else self._part(room)

    def devices(self, most: int) -> dict[NodeId, UsableDevices]:
        """Of so many nodes that could take it."""
        some = list(self.suited.items())[:most]
        return {node_id: self._part(room) for node_id, room in some}

    def _part(self, room: NodeCapacity) -> UsableDevices:
        return usable_devices(room.node, tuple(each.position for each in self._usable(room)))

    def _usable(self, room: NodeCapacity) -> tuple[Usable, ...]:
        devices = self._want.devices(room.profile)
        assert not isinstance(devices, Refusal), "only rooms that suit are asked"
        return devices

    def kinds(self) -> list[tuple[FreeNode, int]]:
        """A node of each kind, and how many there are of it; whose they are is told apart."""
        examples: dict[tuple[NodeProfile, float, bool], FreeNode] = {}
        counts: Counter[tuple[NodeProfile, float, bool]] = Counter()
        for room in self._rooms:
            kind = (room.profile, room.rating, self._is_owned(room))
            examples.setdefault(kind, room.node)
            counts[kind] += 1
        return [(node, counts[kind]) for kind, node in examples.items()]

    def market(self) -> Market:
        """Every node that would do is counted; what its devices cost is worked out once a kind."""
        rooms = self.suited.values()
        prices = [price for room in rooms for price in self._prices_of(room)]
        return Market(
            nodes=len(self.suited),
            devices=sum(len(self._usable(room)) for room in rooms),
            free_devices=sum(
                self._want.free_count(room, self.task.account_id) for room in self.free
            ),
            slots=sum(map(self._slots, rooms)),
            cheapest_micro_per_hour=min(prices, default=None),
            dearest_micro_per_hour=max(prices, default=None),
        )

    def _prices_of(self, room: NodeCapacity) -> tuple[int, int]:
        """Of an hour on such a node: with the cheapest of its devices that would do, and with the
        dearest."""
        known = self._prices.get(room.profile)
        if known is None:
            usable = sorted(self._usable(room), key=lambda each: each.price * each.milli)
            some = (tuple(usable[: self._want.count]), tuple(usable[-self._want.count :]))
            known = self._prices[room.profile] = (price_of(some[0]), price_of(some[1]))
        return known

    def _slots(self, room: NodeCapacity) -> int:
        """How many would find room on it if it were free, by devices and by all else."""
        wanted, node = self._want.requirements, room.node
        by_devices = sum(_parts(each, room) for each in self._usable(room)) // self._want.count
        by_cores = node.cores // wanted.cores
        by_memory = (node.memory_bytes or wanted.memory_bytes) // wanted.memory_bytes
        by_disk = (node.disk_bytes or wanted.disk_bytes) // wanted.disk_bytes
        return max(1, min(by_devices, by_cores, by_memory, by_disk))


def _parts(usable: Usable, room: NodeCapacity) -> int:
    """Whole GPUs serve one task; of a processor cores are what is short."""
    if room.node.devices[usable.position].kind is DeviceKind.CPU:
        return room.node.cores
    return WHOLE_DEVICE_MILLI // usable.milli
