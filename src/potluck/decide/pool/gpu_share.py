"""What a task gets of a node beside its GPUs, if it did not request it.

A task with whole GPUs gets their share of the node's cores, memory and disk, as far as it is free;
one without keeps the small defaults. An amount other than the default is never changed, and none
gets smaller, so nothing here decides where a task fits.
"""

from msgspec.structs import replace

from potluck.decide.pool.node_capacity import NodeCapacity
from potluck.decide.types import DeviceShare
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import AccountId
from potluck.model.task import MIB, Requirements

_DEFAULT = Requirements()


def with_gpu_share(
    requirements: Requirements,
    capacity: NodeCapacity,
    shares: tuple[DeviceShare, ...],
    account_id: AccountId,
) -> Requirements:
    """The requirements with the share of the GPUs instead of defaults."""
    node = capacity.node
    if not node.gpu_share or not _has_defaults(requirements):
        return requirements
    gpus = {device.id for device in node.devices if device.kind is DeviceKind.GPU}
    whole = sum(share.milli == WHOLE_DEVICE_MILLI and share.device_id in gpus for share in shares)
    if not whole:
        return requirements
    part = node.gpu_share * whole / len(gpus)
    if requirements.cores == _DEFAULT.cores:
        cores = min(int(node.cores * part), capacity.cores)
        requirements = replace(requirements, cores=max(requirements.cores, cores))
    if requirements.memory_bytes == _DEFAULT.memory_bytes:
        size_bytes = _whole_mib(min(node.memory_bytes * part, capacity.memory_bytes))
        size_bytes = max(requirements.memory_bytes, size_bytes)
        requirements = replace(requirements, memory_bytes=size_bytes)
    if requirements.disk_bytes == _DEFAULT.disk_bytes:
        most_bytes = node.disk_bytes_for(account_id, requirements)
        size_bytes = _whole_mib(min(node.disk_bytes * part, capacity.disk_bytes, most_bytes))
        requirements = replace(requirements, disk_bytes=max(requirements.disk_bytes, size_bytes))
    return requirements


def _has_defaults(requirements: Requirements) -> bool:
    return (
        requirements.cores == _DEFAULT.cores
        or requirements.memory_bytes == _DEFAULT.memory_bytes
        or requirements.disk_bytes == _DEFAULT.disk_bytes
    )


def _whole_mib(size_bytes: float) -> int:
    return int(size_bytes // MIB) * MIB
