"""Which devices would do for a task, if they were free; remembered for tasks that ask alike."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from potluck.decide.pool.feasible import Refusal, suitable
from potluck.decide.snapshot import FreeNode, WaitingTask
from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.task import Requirements

_Key = tuple[AccountId, Requirements]

# Among so many nodes a good place is found; looking at all of a large pool would take too long.
_MOST_NODES = 1000
# Askings that are remembered: as many as are laid out at a time, and some for who asks why.
_MOST_KNOWN = 512


class Usable(Struct, frozen=True):
    """The devices of a node that would do for a task."""

    whole: frozenset[DeviceId]  # GPUs, which a task has for itself
    shared: int  # CPUs: many tasks have their parts of one, and only its cores can be short
    has_all: bool  # whether `whole` is all the GPUs that the node has

    def whole_wanted(self, task: WaitingTask) -> int:
        """How many of the GPUs the task must have."""
        return max(0, task.requirements.device_count - self.shared)


class Suitability:
    def __init__(self) -> None:
        self._nodes: dict[NodeId, FreeNode] = {}
        self._host_nodes: Counter[AccountId] = Counter()
        self._hosts: frozenset[AccountId] = frozenset()
        self._kinds: dict[object, dict[NodeId, None]] = {}
        # Parts of a node's devices, by their places on it, the same object for all that ask alike.
        self._parts: dict[NodeId, dict[tuple[int, ...], Usable]] = {}
        self._known: dict[_Key, dict[NodeId, Usable]] = {}

    @property
    def nodes(self) -> dict[NodeId, FreeNode]:
        """All nodes as they were put; what is free of them is the capacity's to say."""
        return self._nodes

    def put_node(self, node: FreeNode) -> bool:
        """Whether it is another one than before, whatever of it is free."""
        before = self._nodes.get(node.id)
        is_other = before is None or _constant(before) != _constant(node)
        if is_other:
            self.drop_node(node.id)
            self._known.clear()
            self._kinds.setdefault(_kind(node), {})[node.id] = None
            self._count_host(node, 1)
            self._parts[node.id] = {}
        self._nodes[node.id] = node
        return is_other

    def drop_node(self, node_id: NodeId) -> None:
        before = self._nodes.pop(node_id, None)
        if before is not None:
            self._known.clear()
            self._count_host(before, -1)
            del self._parts[node_id]
            kind = _kind(before)
            del self._kinds[kind][node_id]
            if not self._kinds[kind]:
                del self._kinds[kind]

    @property
    def remembered(self) -> int:
        """How many askings are kept in mind."""
        return len(self._known)

    def kinds(self) -> Iterator[tuple[FreeNode, list[NodeId]]]:
        """A node of each kind, and all that are of it."""
        for node_ids in self._kinds.values():
            yield self._nodes[next(iter(node_ids))], list(node_ids)

    @property
    def hosts(self) -> frozenset[AccountId]:
        """Who has nodes that run their owner's tasks only."""
        return self._hosts

    def devices(self, task: WaitingTask) -> dict[NodeId, Usable]:
        """For each node that could take the task, or for enough of them: its devices that would do.

        Not the nodes that failed it, unless no other could ever take it: as in `Capacity.find`.
        """
        key = (task.account_id, task.requirements)
        found = self._known.pop(key, None)
        if found is None:
            found = self._look(task)
            if len(self._known) >= _MOST_KNOWN:
                del self._known[next(iter(self._known))]
        self._known[key] = found  # the last one, which is forgotten last
        if task.failed_on.isdisjoint(found):
            return found
        return {each: found[each] for each in found if each not in task.failed_on} or found

    def _look(self, task: WaitingTask) -> dict[NodeId, Usable]:
        found: dict[NodeId, Usable] = {}
        for example, node_ids in self.kinds():
            devices = suitable(task, example)
            if isinstance(devices, Refusal):
                continue
            ids = [device.id for device in example.devices]
            places = tuple(ids.index(device.id) for device in devices)
            for node_id in node_ids[: _MOST_NODES - len(found)]:
                found[node_id] = self._part(node_id, places)
            if len(found) >= _MOST_NODES:
                break
        return found

    def _count_host(self, node: FreeNode, sign: int) -> None:
        if not node.own_tasks_only:
            return
        self._host_nodes[node.account_id] += sign
        if not self._host_nodes[node.account_id]:
            del self._host_nodes[node.account_id]
        if (node.account_id in self._host_nodes) != (node.account_id in self._hosts):
            self._hosts = frozenset(self._host_nodes)

    def _part(self, node_id: NodeId, places: tuple[int, ...]) -> Usable:
        parts = self._parts[node_id]
        if places not in parts:
            node = self._nodes[node_id]
            gpus = frozenset(each.id for each in node.devices if each.kind is DeviceKind.GPU)
            whole = gpus.intersection(node.devices[place].id for place in places)
            parts[places] = Usable(whole, len(places) - len(whole), whole == gpus)
        return parts[places]


def _constant(node: FreeNode) -> object:
    """What a node is, whatever of it is free."""
    return (_kind(node), tuple(device.id for device in node.devices))


def _kind(node: FreeNode) -> object:
    """What tells a node from others, but for its name."""
    devices = tuple(
        (
            *(each.kind, each.vendor, each.model, each.memory_bytes, each.compute_capability),
            *(each.price_micro_per_hour, each.is_partition, each.shares_accounts),
        )
        for each in node.devices
    )
    return (
        *(node.account_id if node.own_tasks_only else None, node.labels, node.sandbox),
        *(round(node.reliability, 2), node.cores, node.memory_bytes, node.disk_bytes),
        devices,
    )
