"""The picture of the pool that one scheduling round decides on."""

from msgspec import Struct

from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId, DeviceId, NodeId, TaskId
from potluck.model.task import Limits, Requirements


class WaitingTask(Struct, frozen=True):
    """A queued task and what its next attempt needs."""

    id: TaskId
    account_id: AccountId
    requirements: Requirements
    limits: Limits
    priority: int
    failed_on: frozenset[NodeId] = frozenset()  # nodes that already lost, failed or ignored it


class FreeDevice(Struct, frozen=True):
    id: DeviceId
    kind: DeviceKind
    model: str
    memory_bytes: int
    price_micro_per_hour: int
    free_milli: int


class FreeNode(Struct, frozen=True):
    """A node that is online, and what it has left."""

    id: NodeId
    account_id: AccountId
    own_tasks_only: bool
    cores: int
    free_cores: int
    free_memory_bytes: int
    free_disk_bytes: int
    devices: tuple[FreeDevice, ...]


class Snapshot(Struct, frozen=True):
    tasks: tuple[WaitingTask, ...]
    nodes: tuple[FreeNode, ...]
    available_micro: dict[AccountId, int]


class DeviceShare(Struct, frozen=True):
    device_id: DeviceId
    milli: int


class Assignment(Struct, frozen=True):
    """This task to this node, with these devices, at this price; applied if all still holds."""

    task_id: TaskId
    node_id: NodeId
    shares: tuple[DeviceShare, ...]
    requirements: Requirements
    limits: Limits
    price_micro_per_hour: int
    hold_micro: int
