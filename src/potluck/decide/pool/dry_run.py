"""A check of the pool for a task that was not submitted.

It uses none of the scheduler's caches: these influence the order of nodes and the placement, so
filling them would change later plans. For the same reason owners are checked node by node.
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
    """The suitable part of the pool, and its price per hour."""

    nodes: int = 0
    devices: int = 0
    free_devices: int = 0
    slots: int = 0  # such tasks that could run at once if all of it were idle
    cheapest_micro_per_hour: int | None = None
    dearest_micro_per_hour: int | None = None


class Chance(Struct, frozen=True):
    """A node that fits now, with the price and the share of devices."""

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
        """The first refusal, in the order of `feasibility.fit`."""
        refusal = self._want.refusal(room, self.task.account_id)
        if refusal is Refusal.OWN_TASKS_ONLY or self._is_owned(room):
            return refusal
        return Refusal.OWNER

    def _is_owned(self, room: NodeCapacity) -> bool:
        return not self._owners or room.node.wallet in self._owners

    def chances(self, may_use: Callable[[NodeId], bool] | None) -> list[Chance]:
        """The nodes that fit now, the cheapest first."""
        found = [
            self._chance(room) for room in self.free if may_use is None or may_use(room.node.id)
        ]
        return sorted(found, key=lambda each: each.price_micro_per_hour)

    def _chance(self, room: NodeCapacity) -> Chance:
        """With the cheapest of the devices that a placement would choose from."""
        free = self._want.free(room, self.task.account_id)
        taken = min(choices(self._want, room, free), key=price_of)
        return Chance(room, price_of(taken), sum(each.milli for each in taken))

    def on(self, _: WaitingTask, node_id: NodeId) -> UsableDevices | None:
        """The suitable devices of a node; None if it could never take the task."""
        room = self.suited.get(node_id)
        return None if room is None else self._part(room)

    def devices(self, most: int) -> dict[NodeId, UsableDevices]:
        """The suitable devices of at most `most` nodes."""
        some = list(self.suited.items())[:most]
        return {node_id: self._part(room) for node_id, room in some}

    def _part(self, room: NodeCapacity) -> UsableDevices:
        return usable_devices(room.node, tuple(each.position for each in self._usable(room)))

    def _usable(self, room: NodeCapacity) -> tuple[Usable, ...]:
        devices = self._want.devices(room.profile)
        assert not isinstance(devices, Refusal), "the node is suitable"
        return devices

    def kinds(self) -> list[tuple[FreeNode, int]]:
        """A node of each kind, with their number; allowed owners are a kind of their own."""
        examples: dict[tuple[NodeProfile, float, bool], FreeNode] = {}
        counts: Counter[tuple[NodeProfile, float, bool]] = Counter()
        for room in self._rooms:
            kind = (room.profile, room.rating, self._is_owned(room))
            examples.setdefault(kind, room.node)
            counts[kind] += 1
        return [(node, counts[kind]) for kind, node in examples.items()]

    def market(self) -> Market:
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
        """The lowest and the highest price of an hour on such a node."""
        known = self._prices.get(room.profile)
        if known is None:
            usable = sorted(self._usable(room), key=lambda each: each.price * each.milli)
            some = (tuple(usable[: self._want.count]), tuple(usable[-self._want.count :]))
            known = self._prices[room.profile] = (price_of(some[0]), price_of(some[1]))
        return known

    def _slots(self, room: NodeCapacity) -> int:
        """How many such tasks would fit on the idle node."""
        wanted, node = self._want.requirements, room.node
        by_devices = sum(_parts(each, room) for each in self._usable(room)) // self._want.count
        by_cores = node.cores // wanted.cores
        by_memory = (node.memory_bytes or wanted.memory_bytes) // wanted.memory_bytes
        by_disk = (node.disk_bytes or wanted.disk_bytes) // wanted.disk_bytes
        return max(1, min(by_devices, by_cores, by_memory, by_disk))


def _parts(usable: Usable, room: NodeCapacity) -> int:
    """How many tasks fit on the device; on a processor its cores are the limit."""
    if room.node.devices[usable.position].kind is DeviceKind.CPU:
        return room.node.cores
    return WHOLE_DEVICE_MILLI // usable.milli
