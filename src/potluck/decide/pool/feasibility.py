"""Decides whether a task may run on a node; the first refusal is the reason that users see.

This is the reference, node by node. `capacity.py` decides the same for a whole pool, and is tested
against it.
"""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from potluck.decide.pool.model_patterns import matches_model
from potluck.decide.types import DeviceShare, FreeDevice, FreeNode, WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI, Availability, DeviceKind
from potluck.model.ids import AccountId, NodeId
from potluck.model.network.patterns import uncovered
from potluck.model.script import suits_python
from potluck.model.task import Requirements

_AVAILABLE = Availability.AVAILABLE
ANY_WALLET = "*"  # as the wallet of a task: it counts as its owner's on every node


class Refusal(StrEnum):
    """Why a node cannot take a task. Permanent reasons come before temporary ones."""

    OWN_TASKS_ONLY = (
        "own_tasks_only"  # without a sandbox with limits it runs only its owner's tasks
    )
    OWNER = "owner"  # the task does not allow its owner
    KIND = "kind"  # it cannot run this kind of task
    STDIN = "stdin"  # its version of Potluck is too old for a task with stdin
    SANDBOX = "sandbox"  # its sandbox is weaker than the task requires
    PYTHON = "python"  # it runs another Python version than the task requires
    LABELS = "labels"  # it lacks a label that the task requires
    RELIABILITY = "reliability"  # it is less reliable than the task requires
    DEVICE_KIND = "device_kind"  # it has no such kind of device
    DEVICE_VENDOR = "device_vendor"  # none of its devices is of that vendor
    DEVICE_MODEL = "device_model"  # none of its devices is of that model
    COMPUTE_CAPABILITY = "compute_capability"  # its devices can do less
    DEVICE_MEMORY = "device_memory"  # its devices have too little memory
    TASK_KIND = "task_kind"  # its owner does not accept such tasks on these devices
    WALLET = "wallet"  # its owner does not accept this account's tasks on these devices
    FRACTION = "fraction"  # its owner offers no such small shares of these devices
    NETWORK = "network"  # its owner does not allow the network that the task needs
    DEVICE_COUNT = "device_count"  # it has too few suitable devices
    PRICE = "price"  # it costs more than the task's price ceiling
    CORES = "cores"  # it has fewer cores
    MEMORY = "memory"  # it has less memory
    DISK = "disk"  # it has less disk
    VOLUMES = "volumes"  # its owner gives volumes less disk, or none
    CORDONED = "cordoned"  # an admin stopped new work on it
    DEVICE_AWAY = "device_away"  # its suitable devices take no new work now
    DEVICE_BUSY = "device_busy"  # its suitable devices are in use
    DEVICE_SHARED = "device_shared"  # its free shares are on devices that other accounts use
    NODE_BUSY = "node_busy"  # its cores, memory or disk are in use
    CREDIT = "credit"  # the account cannot pay for the attempt now


class Fit(Struct, frozen=True, gc=False):
    """The device shares of a node for a task, and their price."""

    node_id: NodeId
    shares: tuple[DeviceShare, ...]
    price_micro_per_hour: int
    requirements: Requirements | None = None  # with the share of its GPUs, once it is taken


def fit(task: WaitingTask, node: FreeNode) -> Fit | Refusal:
    """How the node would serve the task, or the first refusal."""
    requirements = task.requirements
    devices = suitable(task, node)
    if isinstance(devices, Refusal):
        return devices
    sufficient = [
        each for each in devices if has_capacity(each, share_of(requirements, each, node.cores))
    ]
    if len(sufficient) < requirements.device_count:
        return Refusal.DEVICE_BUSY
    open_ = [each for each in sufficient if is_open_to(each, requirements, task.account_id)]
    if len(open_) < requirements.device_count:
        return Refusal.DEVICE_SHARED
    if not _node_has_capacity(requirements, node):
        return Refusal.NODE_BUSY
    return _fit(requirements, node, sorted(open_, key=plain_order)[: requirements.device_count])


def suitable(task: WaitingTask, node: FreeNode) -> tuple[FreeDevice, ...] | Refusal:
    """The devices that would fit if the node were idle, or the first refusal that does not depend
    on running attempts."""
    requirements = task.requirements
    refusal = _node_refusal(task, node)
    if refusal is not None:
        return refusal
    devices = list(node.devices)
    for refusal, keep in _DEVICE_CHECKS:
        devices = [device for device in devices if keep(requirements, device)]
        if not devices:
            return refusal
    accepting = _accepting(task, node, devices)
    if isinstance(accepting, Refusal):
        return accepting
    devices = accepting
    devices = [device for device in devices if _price_is_fine(requirements, device, node.cores)]
    if not devices:
        return Refusal.PRICE
    if len(devices) < requirements.device_count:
        return Refusal.DEVICE_COUNT
    if (too_small := _size_refusal(task, node)) is not None:
        return too_small
    return Refusal.CORDONED if node.is_cordoned else _available(requirements, devices)


def _accepting(
    task: WaitingTask, node: FreeNode, devices: list[FreeDevice]
) -> list[FreeDevice] | Refusal:
    """The devices whose owner's terms accept the task."""
    if any(map(_says_something, devices)):
        for refusal, takes in _TERMS:
            devices = [device for device in devices if takes(task, device)]
            if not devices:
                return refusal
    requirements = task.requirements
    if requirements.network:
        is_own = requirements.own_wallet in (ANY_WALLET, node.wallet or ANY_WALLET)
        devices = [device for device in devices if _gives_network(requirements, device, is_own)]
    return devices or Refusal.NETWORK


def _node_refusal(task: WaitingTask, node: FreeNode) -> Refusal | None:
    requirements = task.requirements
    if not node.is_open_to(task.account_id, task.kind):
        return Refusal.OWN_TASKS_ONLY
    if requirements.owners and node.wallet not in requirements.owners:
        return Refusal.OWNER
    strength = node.strength_for(task.kind)
    if strength is None:
        return Refusal.KIND
    if requirements.stdin and not node.takes_stdin:
        return Refusal.STDIN
    if requirements.sandbox is not None and not strength.is_at_least(requirements.sandbox):
        return Refusal.SANDBOX
    if requirements.python is not None and not _has_python(node, requirements.python):
        return Refusal.PYTHON
    if not node.labels.issuperset(requirements.labels):
        return Refusal.LABELS
    if requirements.min_reliability is not None and node.reliability < requirements.min_reliability:
        return Refusal.RELIABILITY
    return None


def _has_python(node: FreeNode, required: str) -> bool:
    return any(suits_python(required, each) for each in (node.python, *node.more_pythons))


def _size_refusal(task: WaitingTask, node: FreeNode) -> Refusal | None:
    """Requirements that exceed the whole node; a total of 0 means unknown."""
    requirements = task.requirements
    if requirements.cores > node.cores:
        return Refusal.CORES
    if 0 < node.memory_bytes < requirements.memory_bytes:
        return Refusal.MEMORY
    if 0 < node.disk_bytes_for(task.account_id, requirements) < requirements.disk_bytes:
        return Refusal.DISK
    if node.volumes_bytes < sum(mount.size_bytes for mount in requirements.volumes):
        return Refusal.VOLUMES
    return None


def _available(
    requirements: Requirements, devices: list[FreeDevice]
) -> tuple[FreeDevice, ...] | Refusal:
    """Unavailable devices return at an unknown time, so no task waits for them."""
    available = tuple([device for device in devices if device.availability is _AVAILABLE])
    return available if len(available) >= requirements.device_count else Refusal.DEVICE_AWAY


def _kind_matches(requirements: Requirements, device: FreeDevice) -> bool:
    return requirements.device_kind in (None, device.kind)


def _vendor_matches(requirements: Requirements, device: FreeDevice) -> bool:
    vendor = requirements.device_vendor
    return vendor is None or vendor.lower() in device.vendor.lower()


def _model_matches(requirements: Requirements, device: FreeDevice) -> bool:
    patterns = requirements.device_model
    return patterns is None or matches_model(patterns, device.model, device.memory_bytes)


def _capability_suffices(requirements: Requirements, device: FreeDevice) -> bool:
    if requirements.compute_capability is None:
        return True
    own = device.compute_capability
    return own is not None and _version(own) >= _version(requirements.compute_capability)


def _version(capability: str) -> tuple[int, ...]:
    return tuple(int(part) for part in capability.split("."))


def _memory_suffices(requirements: Requirements, device: FreeDevice) -> bool:
    return device.memory_bytes >= requirements.device_memory_bytes


_DEVICE_CHECKS: tuple[tuple[Refusal, Callable[[Requirements, FreeDevice], bool]], ...] = (
    (Refusal.DEVICE_KIND, _kind_matches),
    (Refusal.DEVICE_VENDOR, _vendor_matches),
    (Refusal.DEVICE_MODEL, _model_matches),
    (Refusal.COMPUTE_CAPABILITY, _capability_suffices),
    (Refusal.DEVICE_MEMORY, _memory_suffices),
)


def _says_something(device: FreeDevice) -> bool:
    """Whether its owner has set any terms; most have not."""
    return bool(device.kinds or device.deny or device.allow is not None or device.least_milli > 1)


def _takes_kind(task: WaitingTask, device: FreeDevice) -> bool:
    return not device.kinds or task.kind in device.kinds


def _takes_account(task: WaitingTask, device: FreeDevice) -> bool:
    is_allowed = device.allow is None or task.account_id in device.allow
    return is_allowed and task.account_id not in device.deny


def _gives_part(task: WaitingTask, device: FreeDevice) -> bool:
    if device.kind is not DeviceKind.GPU:
        return True
    return (task.requirements.device_milli or WHOLE_DEVICE_MILLI) >= device.least_milli


# The terms of a device's owner.
_TERMS: tuple[tuple[Refusal, Callable[[WaitingTask, FreeDevice], bool]], ...] = (
    (Refusal.TASK_KIND, _takes_kind),
    (Refusal.WALLET, _takes_account),
    (Refusal.FRACTION, _gives_part),
)


def named_wallets(requirements: Requirements) -> tuple[str, ...]:
    """The owners whose nodes differ from others for these requirements."""
    own = () if requirements.own_wallet is None else (requirements.own_wallet,)
    return (*requirements.owners, *own)


def _gives_network(requirements: Requirements, device: FreeDevice, is_own: bool) -> bool:
    allowed = device.own_network if is_own else device.network
    most_bytes = device.network_task_bytes
    if most_bytes is not None and most_bytes < requirements.network_bytes:
        return False
    return not uncovered(requirements.network, allowed)


def _price_is_fine(requirements: Requirements, device: FreeDevice, node_cores: int) -> bool:
    ceiling = requirements.max_price_micro_per_hour
    if ceiling is None:
        return True
    return price_of(requirements, device, node_cores) <= ceiling


def price_of(requirements: Requirements, device: FreeDevice, node_cores: int) -> int:
    """The price of an hour if all devices of the task are like this one."""
    milli = share_of(requirements, device, node_cores).milli
    return device.price_micro_per_hour * milli * requirements.device_count // WHOLE_DEVICE_MILLI


def share_of(requirements: Requirements, device: FreeDevice, node_cores: int) -> DeviceShare:
    """The share a task takes: a whole GPU or a fraction; of a CPU the share of its cores."""
    if device.kind is not DeviceKind.GPU:
        milli = max(1, WHOLE_DEVICE_MILLI * requirements.cores // node_cores)
        return DeviceShare(device.id, milli)
    if requirements.device_milli is None or requirements.device_milli == WHOLE_DEVICE_MILLI:
        return DeviceShare(device.id, WHOLE_DEVICE_MILLI, device.memory_bytes)
    part = device.memory_bytes * requirements.device_milli // WHOLE_DEVICE_MILLI
    return DeviceShare(
        device.id, requirements.device_milli, requirements.device_memory_bytes or part
    )


def has_capacity(device: FreeDevice, share: DeviceShare) -> bool:
    is_unused = device.free_milli == WHOLE_DEVICE_MILLI
    free_memory_bytes = device.memory_bytes if is_unused else device.free_memory_bytes
    return device.free_milli >= share.milli and free_memory_bytes >= share.memory_bytes


def is_open_to(device: FreeDevice, requirements: Requirements, account_id: AccountId) -> bool:
    """Fractions of a GPU are not isolated from each other, so they serve one account.

    Except if the device is a partition, or its owner and all its users agree to share it.
    """
    if device.free_milli == WHOLE_DEVICE_MILLI or device.is_partition:
        return True
    if device.kind is not DeviceKind.GPU or device.serves == account_id:
        return True
    return device.shares_accounts and device.serves_sharers and requirements.shares_device


def plain_order(device: FreeDevice) -> tuple[int, int, int, str]:
    """The cheapest first, then the smallest, then those already in use."""
    return (device.price_micro_per_hour, device.memory_bytes, device.free_milli, device.id)


def _node_has_capacity(requirements: Requirements, node: FreeNode) -> bool:
    return (
        requirements.cores <= node.free_cores
        and requirements.memory_bytes <= node.free_memory_bytes
        and requirements.disk_bytes <= node.free_disk_bytes
    )


def _fit(requirements: Requirements, node: FreeNode, devices: list[FreeDevice]) -> Fit:
    shares = tuple(share_of(requirements, device, node.cores) for device in devices)
    pairs = zip(devices, shares, strict=True)
    price = sum(device.price_micro_per_hour * share.milli for device, share in pairs)
    return Fit(node.id, shares, price // WHOLE_DEVICE_MILLI)
