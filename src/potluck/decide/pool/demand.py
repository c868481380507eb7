"""The demand of tasks with equal requirements, evaluated once per node profile."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from potluck.decide.pool.feasibility import Refusal, share_of, suitable
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.decide.types import DeviceShare, FreeDevice, WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import AccountId
from potluck.model.task import Requirements


class Usable(Struct, frozen=True, gc=False):
    """A suitable device of a profile, with the share that a task would take."""

    position: int
    milli: int
    memory_bytes: int
    price: int
    is_exclusive: bool  # must be unused or used by the same account, unless all agree to share
    may_share: bool  # owner and task agree to share with other accounts


class Needs(Struct, frozen=True):
    """The GPU capacity that must be free on a node; zero if another kind of device would do."""

    is_on_gpu: bool
    whole_gpus: int
    gpu_milli: int
    is_exclusive: bool


# Refusals that are checked before reliability.
_BEFORE_RELIABILITY = {
    *(Refusal.OWN_TASKS_ONLY, Refusal.OWNER, Refusal.KIND, Refusal.SANDBOX, Refusal.PYTHON),
    *(Refusal.STDIN, Refusal.LABELS),
}


class Demand:
    """Tasks with equal requirements, and of one account if some node treats it specially."""

    __slots__ = (
        *("_are_alike", "_is_one_whole", "cores", "count", "disk_bytes", "memory_bytes"),
        *("min_reliability", "needs", "requirements", "task", "usable"),
    )

    def __init__(self, task: WaitingTask) -> None:
        requirements = task.requirements
        self.task = task
        self.requirements = requirements
        self.cores = requirements.cores
        self.memory_bytes = requirements.memory_bytes
        self.disk_bytes = requirements.disk_bytes
        self.count = requirements.device_count
        self.min_reliability = requirements.min_reliability
        self.needs = _needs(requirements)
        self._is_one_whole = self.needs.whole_gpus == 1
        self._are_alike: dict[NodeProfile, bool] = {}
        self.usable: dict[NodeProfile, tuple[Usable, ...] | Refusal] = {}

    def devices(self, profile: NodeProfile) -> tuple[Usable, ...] | Refusal:
        """The suitable devices of such nodes, or their permanent refusal."""
        known = self.usable.get(profile)
        if known is None:
            known = self.usable[profile] = self._look(profile)
        return known

    def forget(self, profile: NodeProfile) -> None:
        self.usable.pop(profile, None)
        self._are_alike.pop(profile, None)

    def forget_others(self, profiles: Collection[NodeProfile]) -> None:
        """Forgets all profiles but these."""
        if len(self.usable) > len(profiles):
            for gone in self.usable.keys() - set(profiles):
                self.forget(gone)

    def uses_all_gpus(self, profiles: Sequence[NodeProfile]) -> bool:
        """Whether on each suitable node all available GPUs are suitable."""
        return all(
            len(devices) == len(profile.gpus)
            for profile in profiles
            if not isinstance(devices := self.devices(profile), Refusal)
        )

    def _look(self, profile: NodeProfile) -> tuple[Usable, ...] | Refusal:
        found = suitable(self.task, profile.node)
        if isinstance(found, Refusal):
            return found
        positions = {device.id: place for place, device in enumerate(profile.node.devices)}
        devices = [
            self._usable(positions[device.id], device, profile.node.cores) for device in found
        ]
        self._are_alike[profile] = len({(each.price, each.memory_bytes) for each in devices}) == 1
        return tuple(devices)

    def _usable(self, position: int, device: FreeDevice, node_cores: int) -> Usable:
        share = share_of(self.requirements, device, node_cores)
        is_part = device.kind is DeviceKind.GPU and share.milli < WHOLE_DEVICE_MILLI
        return Usable(
            position=position,
            milli=share.milli,
            memory_bytes=share.memory_bytes,
            price=device.price_micro_per_hour,
            is_exclusive=is_part and not device.is_partition,
            may_share=device.shares_accounts and self.requirements.shares_device,
        )

    def free(self, capacity: NodeCapacity, account_id: AccountId) -> list[Usable]:
        """The devices that fit now; none if the node lacks free cores, memory or disk.

        By far the most frequent call, so it is written in one piece.
        """
        devices = self.usable.get(capacity.profile) or self.devices(capacity.profile)
        if (
            not isinstance(devices, tuple)
            or self.cores > capacity.cores
            or self.memory_bytes > capacity.memory_bytes
            or self.disk_bytes > capacity.disk_bytes
            or (
                self.min_reliability is not None
                and capacity.node.reliability < self.min_reliability
            )
        ):
            return []
        milli, memory_bytes = capacity.milli, capacity.device_memory_bytes
        if self._is_one_whole and self._are_alike[capacity.profile]:
            # The first of equal whole devices is as good as any.
            for each in devices:
                if milli[each.position] == WHOLE_DEVICE_MILLI:
                    return [each]
            return []
        serves, sharers = capacity.serves, capacity.sharers
        free: list[Usable] = []
        for each in devices:
            position = each.position
            free_milli = milli[position]
            if (
                free_milli >= each.milli
                and memory_bytes[position] >= each.memory_bytes
                and (
                    free_milli == WHOLE_DEVICE_MILLI
                    or not each.is_exclusive
                    or serves[position] == account_id
                    or (each.may_share and sharers[position])
                )
            ):
                free.append(each)
        return free

    def free_count(self, capacity: NodeCapacity, account_id: AccountId) -> int:
        """How many devices would fit now, one by one; 0 if there are too few for one task."""
        devices = self.devices(capacity.profile)
        if isinstance(devices, Refusal) or len(self.free(capacity, account_id)) < self.count:
            return 0
        return sum(
            _has_capacity(each, capacity) and _is_open(each, capacity, account_id)
            for each in devices
        )

    def suits(self, capacity: NodeCapacity) -> bool:
        """Whether the node would fit if it were idle."""
        return self.is_reliable(capacity) and not isinstance(
            self.devices(capacity.profile), Refusal
        )

    def is_reliable(self, capacity: NodeCapacity) -> bool:
        return self.min_reliability is None or capacity.node.reliability >= self.min_reliability

    def refusal(self, capacity: NodeCapacity, account_id: AccountId) -> Refusal | None:
        """Why the node does not fit, or None; the same result as `feasibility.fit`, but faster."""
        devices = self.devices(capacity.profile)
        if not self.is_reliable(capacity):
            if isinstance(devices, Refusal) and devices in _BEFORE_RELIABILITY:
                return devices
            return Refusal.RELIABILITY
        if isinstance(devices, Refusal):
            return devices
        if len(self.free(capacity, account_id)) >= self.count:
            return None
        sufficient = [each for each in devices if _has_capacity(each, capacity)]
        if len(sufficient) < self.count:
            return Refusal.DEVICE_BUSY
        if sum(_is_open(each, capacity, account_id) for each in sufficient) < self.count:
            return Refusal.DEVICE_SHARED
        return Refusal.NODE_BUSY

    def shares(self, capacity: NodeCapacity, taken: tuple[Usable, ...]) -> tuple[DeviceShare, ...]:
        devices = capacity.node.devices
        if len(taken) == 1:
            only = taken[0]
            return (DeviceShare(devices[only.position].id, only.milli, only.memory_bytes),)
        return tuple(
            [
                DeviceShare(devices[each.position].id, each.milli, each.memory_bytes)
                for each in taken
            ]
        )


def _needs(requirements: Requirements) -> Needs:
    is_on_gpu = requirements.device_kind is DeviceKind.GPU
    part = requirements.device_milli or WHOLE_DEVICE_MILLI
    if part == WHOLE_DEVICE_MILLI:
        return Needs(is_on_gpu, requirements.device_count if is_on_gpu else 0, 0, False)
    return Needs(is_on_gpu, 0, part if is_on_gpu else 0, is_on_gpu)


def _has_capacity(usable: Usable, capacity: NodeCapacity) -> bool:
    position = usable.position
    return (
        capacity.milli[position] >= usable.milli
        and capacity.device_memory_bytes[position] >= usable.memory_bytes
    )


def _is_open(usable: Usable, capacity: NodeCapacity, account_id: AccountId) -> bool:
    position = usable.position
    return (
        not usable.is_exclusive
        or capacity.milli[position] == WHOLE_DEVICE_MILLI
        or capacity.serves[position] == account_id
        or (usable.may_share and capacity.sharers[position])
    )
