"""Which devices would do for a task, if they were free; remembered for tasks that ask alike."""

from collections import Counter
from collections.abc import Iterator

from potluck.decide.feasible import Refusal, suitable
from potluck.decide.snapshot import FreeNode, WaitingTask
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.task import Requirements

_Key = tuple[AccountId, Requirements]


class Suitability:
    def __init__(self) -> None:
        self._nodes: dict[NodeId, FreeNode] = {}
        self._hosts: Counter[AccountId] = Counter()
        self._kinds: dict[object, dict[NodeId, None]] = {}
        self._all: dict[NodeId, frozenset[DeviceId]] = {}
        self._known: dict[_Key, dict[NodeId, frozenset[DeviceId]]] = {}

    @property
    def nodes(self) -> dict[NodeId, FreeNode]:
        """All nodes as they were put; what is free of them is the capacity's to say."""
        return self._nodes

    def put_node(self, node: FreeNode) -> None:
        before = self._nodes.get(node.id)
        if before is None or _constant(before) != _constant(node):
            self.drop_node(node.id)
            self._known.clear()
            self._kinds.setdefault(_kind(node), {})[node.id] = None
            self._hosts[node.account_id] += node.own_tasks_only
            self._all[node.id] = frozenset(device.id for device in node.devices)
        self._nodes[node.id] = node

    def drop_node(self, node_id: NodeId) -> None:
        before = self._nodes.pop(node_id, None)
        if before is not None:
            self._known.clear()
            self._hosts[before.account_id] -= before.own_tasks_only
            del self._all[node_id]
            kind = _kind(before)
            del self._kinds[kind][node_id]
            if not self._kinds[kind]:
                del self._kinds[kind]

    def kinds(self) -> Iterator[tuple[FreeNode, list[NodeId]]]:
        """A node of each kind, and all that are of it."""
        for node_ids in self._kinds.values():
            yield self._nodes[next(iter(node_ids))], list(node_ids)

    @property
    def hosts(self) -> frozenset[AccountId]:
        """Who has nodes that run their owner's tasks only."""
        return frozenset(+self._hosts)

    def devices(self, task: WaitingTask) -> dict[NodeId, frozenset[DeviceId]]:
        """For each node that could ever take the task: its devices that would do."""
        key = (task.account_id, task.requirements)
        if key not in self._known:
            self._known[key] = self._look(task)
        return self._known[key]

    def _look(self, task: WaitingTask) -> dict[NodeId, frozenset[DeviceId]]:
        found: dict[NodeId, frozenset[DeviceId]] = {}
        for example, node_ids in self.kinds():
            devices = suitable(task, example)
            if isinstance(devices, Refusal):
                continue
            if len(devices) == len(example.devices):
                found.update((node_id, self._all[node_id]) for node_id in node_ids)
                continue
            ids = [device.id for device in example.devices]
            places = [ids.index(device.id) for device in devices]
            for node_id in node_ids:
                of_node = self._nodes[node_id].devices
                found[node_id] = frozenset(of_node[place].id for place in places)
        return found


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
