"""May this task run on this node? The first wall that it meets is the reason that people see."""

from enum import StrEnum
from fnmatch import fnmatchcase

from msgspec import Struct

from potluck.decide.settle import hold_micro
from potluck.decide.snapshot import (
    DeviceShare,
    FreeDevice,
    FreeNode,
    WaitingTask,
)
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.task import Requirements


class Refusal(StrEnum):
    """Why a node can not take a task. Permanent reasons come before passing ones."""

    OWN_TASKS_ONLY = "own_tasks_only"  # the node has no sandbox and runs its owner's tasks only
    DEVICE_KIND = "device_kind"  # it has no such kind of device
    DEVICE_MODEL = "device_model"  # none of its devices is of that model
    DEVICE_MEMORY = "device_memory"  # its devices have too little memory
    DEVICE_COUNT = "device_count"  # it has too few such devices
    PRICE = "price"  # it costs more than the task wants to pay
    CORES = "cores"  # it has fewer cores
    DEVICE_BUSY = "device_busy"  # it has the devices, and they are in use
    NODE_BUSY = "node_busy"  # its cores, memory or disk are in use, or too small
    CREDIT = "credit"  # the account cannot pay for the attempt now


class Fit(Struct, frozen=True):
    """The devices of a node that would serve a task, and what they cost."""

    node: FreeNode
    shares: tuple[DeviceShare, ...]
    price_micro_per_hour: int
    hold_micro: int


def fit(task: WaitingTask, node: FreeNode, available_micro: int) -> Fit | Refusal:
    """How the node would serve the task, or the first reason why it can not."""
    wanted = task.requirements
    if node.own_tasks_only and node.account_id != task.account_id:
        return Refusal.OWN_TASKS_ONLY
    suitable = _suitable_devices(wanted, node)
    if isinstance(suitable, Refusal):
        return suitable
    if wanted.cores > node.cores:
        return Refusal.CORES
    shares = _free_shares(wanted, node, suitable)
    if shares is None:
        return Refusal.DEVICE_BUSY
    if not _node_has_room(wanted, node):
        return Refusal.NODE_BUSY
    return _affordable(task, node, shares, available_micro)


def _suitable_devices(wanted: Requirements, node: FreeNode) -> list[FreeDevice] | Refusal:
    """The devices that would do if they were free, narrowed down wall by wall."""
    devices = list(node.devices)
    for refusal, keep in (
        (Refusal.DEVICE_KIND, lambda d: wanted.device_kind in (None, d.kind)),
        (Refusal.DEVICE_MODEL, lambda d: _model_matches(wanted.device_model, d.model)),
        (Refusal.DEVICE_MEMORY, lambda d: d.memory_bytes >= wanted.device_memory_bytes),
        (Refusal.PRICE, lambda d: _price_is_fine(wanted, d)),
    ):
        devices = [device for device in devices if keep(device)]
        if not devices:
            return refusal
    return devices if len(devices) >= wanted.device_count else Refusal.DEVICE_COUNT


def _model_matches(pattern: str | None, model: str) -> bool:
    return pattern is None or fnmatchcase(model.lower(), f"*{pattern.lower()}*")


def _price_is_fine(wanted: Requirements, device: FreeDevice) -> bool:
    ceiling = wanted.max_price_micro_per_hour
    return ceiling is None or device.price_micro_per_hour * wanted.device_count <= ceiling


def _free_shares(
    wanted: Requirements, node: FreeNode, devices: list[FreeDevice]
) -> tuple[DeviceShare, ...] | None:
    free = [
        DeviceShare(device.id, milli)
        for device in sorted(devices, key=lambda d: (d.price_micro_per_hour, d.memory_bytes, d.id))
        if device.free_milli >= (milli := share_milli(wanted, device, node.cores))
    ]
    return tuple(free[: wanted.device_count]) if len(free) >= wanted.device_count else None


def share_milli(wanted: Requirements, device: FreeDevice, node_cores: int) -> int:
    """A GPU is given whole; of a CPU a task takes the share that its cores make up."""
    if device.kind is DeviceKind.GPU:
        return WHOLE_DEVICE_MILLI
    return max(1, WHOLE_DEVICE_MILLI * wanted.cores // node_cores)


def _node_has_room(wanted: Requirements, node: FreeNode) -> bool:
    return (
        wanted.cores <= node.free_cores
        and wanted.memory_bytes <= node.free_memory_bytes
        and wanted.disk_bytes <= node.free_disk_bytes
    )


def _affordable(
    task: WaitingTask, node: FreeNode, shares: tuple[DeviceShare, ...], available_micro: int
) -> Fit | Refusal:
    prices = {device.id: device.price_micro_per_hour for device in node.devices}
    price = sum(prices[share.device_id] * share.milli for share in shares) // WHOLE_DEVICE_MILLI
    hold = hold_micro(price, task.limits.run_seconds)
    return Fit(node, shares, price, hold) if hold <= available_micro else Refusal.CREDIT


def suitable(task: WaitingTask, node: FreeNode) -> tuple[FreeDevice, ...] | Refusal:
    """The devices that would do if all of the node were free, or the first lasting refusal."""
    if node.own_tasks_only and node.account_id != task.account_id:
        return Refusal.OWN_TASKS_ONLY
    found = _suitable_devices(task.requirements, node)
    if isinstance(found, Refusal):
        return found
    return Refusal.CORES if task.requirements.cores > node.cores else tuple(found)
