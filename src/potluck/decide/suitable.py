"""Which devices would do for a task, if they were free; remembered for tasks that ask alike."""

from collections import Counter

from potluck.decide.feasible import Refusal, suitable
from potluck.decide.snapshot import FreeNode, WaitingTask
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.task import Requirements

_Key = tuple[AccountId, Requirements]


class Suitability:
    def __init__(self) -> None:
        self._nodes: dict[NodeId, FreeNode] = {}
        self._hosts: Counter[AccountId] = Counter()
        self._known: dict[_Key, dict[NodeId, frozenset[DeviceId]]] = {}

    @property
    def nodes(self) -> dict[NodeId, FreeNode]:
        """All nodes as they were put; what is free of them is the capacity's to say."""
        return self._nodes

    def put_node(self, node: FreeNode) -> None:
        before = self._nodes.get(node.id)
        self._nodes[node.id] = node
        self._count_host(before, -1)
        self._count_host(node, 1)
        if before is None or _constant(before) != _constant(node):
            self._known.clear()

    def drop_node(self, node_id: NodeId) -> None:
        before = self._nodes.pop(node_id, None)
        if before is not None:
            self._count_host(before, -1)
            self._known.clear()

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

    def _count_host(self, node: FreeNode | None, sign: int) -> None:
        if node is not None and node.own_tasks_only:
            self._hosts[node.account_id] += sign

    def _look(self, task: WaitingTask) -> dict[NodeId, frozenset[DeviceId]]:
        found = {}
        for node in self._nodes.values():
            devices = suitable(task, node)
            if not isinstance(devices, Refusal):
                found[node.id] = frozenset(device.id for device in devices)
        return found


def _constant(node: FreeNode) -> tuple[object, ...]:
    """What a node is, whatever of it is free."""
    devices = tuple(
        (each.id, each.kind, each.model, each.memory_bytes, each.price_micro_per_hour)
        for each in node.devices
    )
    reliability = round(node.reliability, 2)
    return (node.own_tasks_only, node.labels, node.sandbox, reliability, node.cores, devices)
