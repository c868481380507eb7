"""The mix of recent tasks, which free devices should suit.

It is learned from arriving tasks. When many have arrived all counts are halved, so that the mix
follows the current demand.
"""

from collections.abc import Sequence

from msgspec import Struct

from potluck.decide.pool.demand import Demand
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.pool.node_capacity import NodeProfile
from potluck.decide.types import WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import Limits, Requirements

_MOST_CLASSES = 256  # the most frequent; the others hardly change the average
_MOST_TASKS = 65_536
_FEW_TASKS = 32
# As a part of the pool: limits the weight of tasks that hardly any node can serve.
_LEAST_SUPPLY = 0.002


class TaskClass(Struct):
    """Tasks with equal requirements, and their weight; the weights of all classes sum to 1."""

    demand: Demand
    milli: int  # of each device
    weight: float = 0.0

    @property
    def total_milli(self) -> int:
        return self.milli * self.demand.count


class TaskMix:
    def __init__(self) -> None:
        self._counts: dict[Requirements, float] = {}
        self._classes: dict[Requirements, TaskClass] = {}
        self._new = 0.0
        self._total = 0.0

    def add(self, requirements: Requirements, count: int) -> None:
        self._counts[requirements] = self._counts.get(requirements, 0.0) + count
        self._new += count
        self._total += count
        if self._total > _MOST_TASKS:
            self._fade()

    @property
    def is_new(self) -> bool:
        """Whether a large part of the mix arrived after the last weighing."""
        return self._new > _FEW_TASKS + self._total / 4

    def classes(self) -> list[TaskClass]:
        return list(self._classes.values())

    def weigh(self, profiles: Sequence[NodeProfile]) -> None:
        """Weighs each class by its tasks, divided by the part of the pool that could serve them."""
        self._new = 0.0
        known = self._classes
        frequent = sorted(self._counts, key=lambda each: -self._counts[each])[:_MOST_CLASSES]
        self._classes = {each: known.get(each) or _class_of(each) for each in frequent}
        pool_milli = sum(
            profile.count * len(profile.gpus) * WHOLE_DEVICE_MILLI for profile in profiles
        )
        for requirements, each in self._classes.items():
            supply = sum(profile.count * supply_milli(each, profile) for profile in profiles)
            each.demand.forget_others(profiles)
            each.weight = self._counts[requirements] / max(supply, _LEAST_SUPPLY * pool_milli, 1.0)
            if not supply:
                each.weight = 0.0
        total = sum(each.weight for each in self._classes.values()) or 1.0
        for each in self._classes.values():
            each.weight /= total

    def _fade(self) -> None:
        self._counts = {key: count / 2 for key, count in self._counts.items() if count >= 1}
        self._total = sum(self._counts.values())


def supply_milli(each: TaskClass, profile: NodeProfile) -> float:
    """How much of an idle node such tasks could use at once, in thousandths of a GPU."""
    devices = gpus_for(each, profile)
    if len(devices) < each.demand.count:
        return 0.0
    node, demand = profile.node, each.demand
    copies = min(node.cores / demand.cores, max(node.memory_bytes, 1) / demand.memory_bytes)
    return min(len(devices) * float(WHOLE_DEVICE_MILLI), copies * each.total_milli)


def gpus_for(each: TaskClass, profile: NodeProfile) -> list[int]:
    """Positions of the node's GPUs that suit the tasks."""
    devices = each.demand.devices(profile)
    if isinstance(devices, Refusal):
        return []
    return [device.position for device in devices if device.position in profile.gpus]


def _class_of(requirements: Requirements) -> TaskClass:
    task = WaitingTask(TaskId(""), AccountId(""), requirements, Limits(), 0)
    return TaskClass(Demand(task), requirements.device_milli or WHOLE_DEVICE_MILLI)
