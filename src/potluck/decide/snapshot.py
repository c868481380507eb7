"""The picture of the pool that one scheduling round decides on."""

from datetime import datetime

from msgspec import Struct

from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId, DeviceId, NodeId, TaskId
from potluck.model.task import Requirements

WHOLE_DEVICE_MILLI = 1000


class WaitingTask(Struct, frozen=True):
    """A queued task and what its next attempt needs."""

    id: TaskId
    account_id: AccountId
    requirements: Requirements
    run_seconds: float
    priority: int
    queued_at: datetime
    not_before: datetime | None = None  # the back-off after a failed or lost attempt
    start_before: datetime | None = None
    failed_on: frozenset[NodeId] = frozenset()  # nodes that already lost or failed it


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
    now: datetime
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
    cores: int
    memory_bytes: int
    disk_bytes: int
    price_micro_per_hour: int
    hold_micro: int
