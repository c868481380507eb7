"""A node in the pool: its profile, which equal nodes share, and its free resources."""

from collections.abc import Container
from typing import NamedTuple

from msgspec.structs import replace

from potluck.decide.types import DeviceShare, FreeDevice, FreeNode, RunningAttempt
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import AccountId
from potluck.model.task import Requirements

_NONE: dict[AccountId, int] = {}


class ProfileKey(NamedTuple):
    make: tuple[object, ...]
    wallet: str  # of its owner, if some task names it


class NodeProfile:
    """The fixed properties of nodes; nodes of one profile differ only in their free resources.

    Equal profiles are one object, so the devices that suit a task are computed once per profile,
    and idle nodes need not be checked one by one.
    """

    __slots__ = ("gpus", "idle", "is_gpu", "key", "named", "node", "nodes")

    def __init__(self, node: FreeNode, key: ProfileKey) -> None:
        self.key = key
        # Reliability changes from day to day, and is checked node by node.
        self.node = replace(node, reliability=1.0, wallet=key.wallet)
        self.gpus = [  # that take new work
            position
            for position, device in enumerate(node.devices)
            if device.kind is DeviceKind.GPU and device.is_available
        ]
        self.is_gpu = [position in self.gpus for position in range(len(node.devices))]
        self.named = _named(node)
        self.nodes = 0  # bitmap of the slots of its nodes
        self.idle = 0  # of the idle nodes among them

    @property
    def count(self) -> int:
        """The number of nodes with this profile."""
        return self.nodes.bit_count()


class NodeCapacity:
    """The free resources of a node. Devices are identified by their position in the node."""

    __slots__ = (
        *("_positions", "cores", "device_memory_bytes", "disk_bytes", "is_idle", "memory_bytes"),
        *("milli", "node", "own_milli", "part_milli", "profile", "rating", "serves"),
        *("shared_milli", "sharers", "slot", "version", "whole_gpus"),
    )

    def __init__(self, node: FreeNode, profile: NodeProfile) -> None:
        self.profile = profile
        self.slot = 0
        self.rating = round(node.reliability, 2)
        # The largest free share of a partly used GPU: of any GPU, of those that other accounts may
        # share, and by the account that uses the GPU.
        self.part_milli = 0
        self.shared_milli = 0
        self.own_milli: dict[AccountId, int] = _NONE
        self.version = 0
        self._take_over(node)

    def is_of(self, node: FreeNode) -> bool:
        """Whether only the free resources of the node differ."""
        ids = [device.id for device in node.devices]
        return self.rating == round(node.reliability, 2) and list(self._positions) == ids

    def read(self, node: FreeNode) -> bool:
        """Updates the free resources; returns whether any increased or opened to other accounts.

        A change of reliability counts too: a task that waited for this node, having failed on all
        others, may retry those now.
        """
        cores, memory_bytes, disk_bytes = self.cores, self.memory_bytes, self.disk_bytes
        milli, device_memory_bytes = self.milli, self.device_memory_bytes
        reliability, serves, sharers = self.node.reliability, self.serves, self.sharers
        self._take_over(node)
        return (
            self.cores > cores
            or node.reliability != reliability
            or self.memory_bytes > memory_bytes
            or self.disk_bytes > disk_bytes
            or any(map(int.__gt__, self.milli, milli))
            or any(map(int.__gt__, self.device_memory_bytes, device_memory_bytes))
            or self.serves != serves
            or self.sharers != sharers
        )

    def _take_over(self, node: FreeNode) -> None:
        self.node = node
        self.cores = node.free_cores
        self.memory_bytes = node.free_memory_bytes
        self.disk_bytes = node.free_disk_bytes
        self._positions = {device.id: position for position, device in enumerate(node.devices)}
        self.milli = [device.free_milli for device in node.devices]
        self.device_memory_bytes = [_free_memory(device) for device in node.devices]
        is_used = [device.free_milli < WHOLE_DEVICE_MILLI for device in node.devices]
        self.serves: list[AccountId | None] = [
            device.serves if used else None
            for device, used in zip(node.devices, is_used, strict=True)
        ]
        self.sharers = [
            device.serves_sharers or not used
            for device, used in zip(node.devices, is_used, strict=True)
        ]
        self.whole_gpus = sum(self.milli[each] == WHOLE_DEVICE_MILLI for each in self.profile.gpus)
        self._count_parts()
        self._note_change()

    def take(
        self, requirements: Requirements, shares: tuple[DeviceShare, ...], whose: AccountId
    ) -> None:
        self.cores -= requirements.cores
        self.memory_bytes -= requirements.memory_bytes
        self.disk_bytes -= requirements.disk_bytes
        is_sharer = requirements.shares_device
        milli = self.milli
        has_other_parts = False
        for share in shares:
            position = self._positions[share.device_id]
            before = milli[position]
            if before == WHOLE_DEVICE_MILLI:
                self.serves[position] = whose
                self.sharers[position] = is_sharer
            elif self.serves[position] != whose or not is_sharer:
                self._share(position, whose, is_sharer)
            milli[position] = after = before - share.milli
            self.device_memory_bytes[position] -= share.memory_bytes
            if self.profile.is_gpu[position]:
                self.whole_gpus -= before == WHOLE_DEVICE_MILLI
                has_other_parts |= after > 0 or before < WHOLE_DEVICE_MILLI
        if has_other_parts:
            self._count_parts()
        self._note_change()

    def give(self, amounts: Requirements | RunningAttempt, shares: tuple[DeviceShare, ...]) -> None:
        self.cores += amounts.cores
        self.memory_bytes += amounts.memory_bytes
        self.disk_bytes += amounts.disk_bytes
        milli = self.milli
        has_other_parts = False
        for share in shares:
            position = self._positions[share.device_id]
            before = milli[position]
            milli[position] = after = before + share.milli
            self.device_memory_bytes[position] += share.memory_bytes
            if after == WHOLE_DEVICE_MILLI:
                self.serves[position] = None
                self.sharers[position] = True
            if self.profile.is_gpu[position]:
                self.whole_gpus += (after == WHOLE_DEVICE_MILLI) - (before == WHOLE_DEVICE_MILLI)
                has_other_parts |= before > 0 or after < WHOLE_DEVICE_MILLI
        if has_other_parts:
            self._count_parts()
        self._note_change()

    def _share(self, position: int, whose: AccountId, is_sharer: bool) -> None:
        self.sharers[position] &= is_sharer
        if self.serves[position] != whose:
            self.serves[position] = None

    def as_node(self) -> FreeNode:
        devices = tuple(self._device(position) for position in range(len(self.milli)))
        return replace(
            self.node,
            free_cores=self.cores,
            free_memory_bytes=self.memory_bytes,
            free_disk_bytes=self.disk_bytes,
            devices=devices,
        )

    def may_share(self, position: int) -> bool:
        """Whether other accounts may use fractions of a device in use."""
        device = self.node.devices[position]
        return device.is_partition or (device.shares_accounts and self.sharers[position])

    def _count_parts(self) -> None:
        own: dict[AccountId, int] = {}
        part_milli = shared_milli = 0
        milli_of = self.milli
        for position in self.profile.gpus:
            milli = milli_of[position]
            if not 0 < milli < WHOLE_DEVICE_MILLI:
                continue
            if milli > part_milli:
                part_milli = milli
            if milli > shared_milli and self.may_share(position):
                shared_milli = milli
            account_id = self.serves[position]
            if account_id is not None and own.get(account_id, 0) < milli:
                own[account_id] = milli
        self.own_milli = own  # a new one, by which the index sees that parts have changed
        self.part_milli = part_milli
        self.shared_milli = shared_milli

    def _device(self, position: int) -> FreeDevice:
        return replace(
            self.node.devices[position],
            free_milli=self.milli[position],
            free_memory_bytes=self.device_memory_bytes[position],
            serves=self.serves[position],
            serves_sharers=self.sharers[position],
        )

    def _note_change(self) -> None:
        self.version += 1
        node = self.node
        self.is_idle = (
            self.cores == node.cores
            and self.memory_bytes == node.memory_bytes
            and self.disk_bytes == node.disk_bytes
            and min(self.milli, default=0) == WHOLE_DEVICE_MILLI
        )


def profile_key(node: FreeNode, asked: Container[str]) -> ProfileKey:
    """Nodes with the same key differ only in reliability and free resources.

    The owner is part of the key only if its wallet is in `asked`.
    """
    devices = tuple(
        (
            *(each.kind, each.model, each.memory_bytes, each.price_micro_per_hour, each.vendor),
            *(each.compute_capability, each.is_partition, each.shares_accounts),
            *(each.is_available, each.kinds, each.least_milli, each.allow, each.deny),
            *(each.network, each.own_network, each.network_task_bytes),
        )
        for each in node.devices
    )
    is_own = node.own_tasks_only or node.own_images_only or node.others_disk_in_memory
    owner = (node.account_id if is_own else None, node.is_doubted)
    totals = (node.cores, node.memory_bytes, node.disk_bytes)
    runs = (
        *(node.sandbox, node.kinds, node.containers, node.python, node.own_tasks_only),
        *(node.takes_stdin, node.is_cordoned, node.volumes_bytes, node.others_disk_in_memory),
        node.more_pythons,
    )
    wallet = node.wallet if node.wallet in asked else ""
    return ProfileKey((owner, totals, node.labels, runs, devices), wallet)


def _named(node: FreeNode) -> frozenset[AccountId]:
    """The accounts that the node treats specially."""
    is_own = node.own_tasks_only or node.own_images_only or node.others_disk_in_memory
    own = frozenset([node.account_id] if is_own else ())
    return own.union(*((each.allow or frozenset()) | each.deny for each in node.devices))


def _free_memory(device: FreeDevice) -> int:
    if device.free_milli == WHOLE_DEVICE_MILLI:
        return device.memory_bytes
    return device.free_memory_bytes
