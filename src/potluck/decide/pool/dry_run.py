"""A check of the pool for a task that was not submitted.

It uses none of the scheduler's caches: these influence the order of nodes and the placement, so
filling them would change later plans. For the same reason owners are checked node by node.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.pool.candidates import choices, price_of
from potluck.decide.pool.demand import Demand, Usable
from potluck.decide.pool.feasibility import ANY_WALLET, Refusal
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


class FittingNode(Struct, frozen=True):
    """A node that fits now, with the price and the share of devices."""

    capacity: NodeCapacity
    price_micro_per_hour: int
    milli: int


class DryRun:
    def __init__(self, nodes: Iterable[NodeCapacity], task: WaitingTask) -> None:
        self._nodes = list(nodes)
        requirements = replace(task.requirements, owners=(), own_wallet=None)
        self.task = replace(task, requirements=requirements)
        self._demand = Demand(self.task)
        own = replace(requirements, own_wallet=ANY_WALLET)
        self._own_demand = (
            Demand(replace(task, requirements=own)) if requirements.network else self._demand
        )
        self._owners = frozenset(task.requirements.owners)
        self._prices: dict[NodeProfile, tuple[int, int]] = {}
        self.refusals: Counter[Refusal] = Counter()
        self.suited: dict[NodeId, NodeCapacity] = {}
        self.free: list[NodeCapacity] = []
        for capacity in self._nodes:
            self._see(capacity)

    def _see(self, capacity: NodeCapacity) -> None:
        refusal = self._refusal(capacity)
        if refusal is not None:
            self.refusals[refusal] += 1
        else:
            self.free.append(capacity)
        if self._is_owned(capacity) and self._demand_for(capacity).suits(capacity):
            self.suited[capacity.node.id] = capacity

    def _refusal(self, capacity: NodeCapacity) -> Refusal | None:
        """The first refusal, in the order of `feasibility.fit`."""
        refusal = self._demand_for(capacity).refusal(capacity, self.task.account_id)
        if refusal is Refusal.OWN_TASKS_ONLY or self._is_owned(capacity):
            return refusal
        return Refusal.OWNER

    def _demand_for(self, capacity: NodeCapacity) -> Demand:
        """Profiles do not know their owner, who may give own tasks more network."""
        is_own = capacity.node.account_id == self.task.account_id
        return self._own_demand if is_own else self._demand

    def _is_owned(self, capacity: NodeCapacity) -> bool:
        return not self._owners or capacity.node.wallet in self._owners

    def _is_own(self, capacity: NodeCapacity) -> bool:
        """Whether the task is for its own account's devices only, which cost it nothing."""
        return len(self._owners) == 1 and capacity.node.account_id == self.task.account_id

    def chances(self, may_use: Callable[[NodeId], bool] | None) -> list[FittingNode]:
        """The nodes that fit now, the cheapest first."""
        found = [
            self._chance(capacity)
            for capacity in self.free
            if may_use is None or may_use(capacity.node.id)
        ]
        return sorted(found, key=lambda each: each.price_micro_per_hour)

    def _chance(self, capacity: NodeCapacity) -> FittingNode:
        """With the cheapest of the devices that a placement would choose from."""
        free = self._demand_for(capacity).free(capacity, self.task.account_id)
        taken = min(choices(self._demand_for(capacity), capacity, free), key=price_of)
        price = 0 if self._is_own(capacity) else price_of(taken)
        return FittingNode(capacity, price, sum(each.milli for each in taken))

    def on(self, _: WaitingTask, node_id: NodeId) -> UsableDevices | None:
        """The suitable devices of a node; None if it could never take the task."""
        capacity = self.suited.get(node_id)
        return None if capacity is None else self._part(capacity)

    def devices(self, most: int) -> dict[NodeId, UsableDevices]:
        """The suitable devices of at most `most` nodes."""
        some = list(self.suited.items())[:most]
        return {node_id: self._part(capacity) for node_id, capacity in some}

    def _part(self, capacity: NodeCapacity) -> UsableDevices:
        return usable_devices(
            capacity.node, tuple(each.position for each in self._usable(capacity))
        )

    def _usable(self, capacity: NodeCapacity) -> tuple[Usable, ...]:
        devices = self._demand_for(capacity).devices(capacity.profile)
        assert not isinstance(devices, Refusal), "the node is suitable"
        return devices

    def kinds(self) -> list[tuple[FreeNode, int]]:
        """A node of each kind, with their number; allowed owners are a kind of their own."""
        examples: dict[tuple[NodeProfile, float, bool], FreeNode] = {}
        counts: Counter[tuple[NodeProfile, float, bool]] = Counter()
        for capacity in self._nodes:
            kind = (capacity.profile, capacity.rating, self._is_owned(capacity))
            examples.setdefault(kind, capacity.node)
            counts[kind] += 1
        return [(node, counts[kind]) for kind, node in examples.items()]

    def market(self) -> Market:
        nodes = self.suited.values()
        prices = [price for capacity in nodes for price in self._prices_of(capacity)]
        return Market(
            nodes=len(self.suited),
            devices=sum(len(self._usable(capacity)) for capacity in nodes),
            free_devices=sum(
                self._demand_for(capacity).free_count(capacity, self.task.account_id)
                for capacity in self.free
            ),
            slots=sum(map(self._slots, nodes)),
            cheapest_micro_per_hour=min(prices, default=None),
            dearest_micro_per_hour=max(prices, default=None),
        )

    def _prices_of(self, capacity: NodeCapacity) -> tuple[int, int]:
        """The lowest and the highest price of an hour on such a node."""
        if self._is_own(capacity):
            return 0, 0
        known = self._prices.get(capacity.profile)
        if known is None:
            usable = sorted(self._usable(capacity), key=lambda each: each.price * each.milli)
            some = (tuple(usable[: self._demand.count]), tuple(usable[-self._demand.count :]))
            known = self._prices[capacity.profile] = (price_of(some[0]), price_of(some[1]))
        return known

    def _slots(self, capacity: NodeCapacity) -> int:
        """How many such tasks would fit on the idle node."""
        requirements, node = self._demand.requirements, capacity.node
        by_devices = (
            sum(_parts(each, capacity) for each in self._usable(capacity)) // self._demand.count
        )
        by_cores = node.cores // requirements.cores
        by_memory = (node.memory_bytes or requirements.memory_bytes) // requirements.memory_bytes
        by_disk = (node.disk_bytes or requirements.disk_bytes) // requirements.disk_bytes
        return max(1, min(by_devices, by_cores, by_memory, by_disk))


def _parts(usable: Usable, capacity: NodeCapacity) -> int:
    """How many tasks fit on the device; on a processor its cores are the limit."""
    if capacity.node.devices[usable.position].kind is DeviceKind.CPU:
        return capacity.node.cores
    return WHOLE_DEVICE_MILLI // usable.milli
