"""The share of a node that the mix of tasks could use on average, from tables per profile.

For one class of tasks, the free part of a device counts if a task fits in it; whole free devices
count for tasks that take several if there are enough of them; devices for which the node lacks free
cores or memory are stranded and do not count. The average over the mix splits into a table per
device, one for the number of whole devices, and a curve each for cores and memory. Treating these
as independent makes it an estimate, but a fast one.
"""

from bisect import bisect_right
from collections.abc import Sequence

from potluck.decide.placement.task_mix import TaskClass, gpus_for
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.model.device import WHOLE_DEVICE_MILLI


class UsableShare:
    def __init__(self, profile: NodeProfile, classes: Sequence[TaskClass]) -> None:
        served = [(each, gpus) for each in classes if (gpus := gpus_for(each, profile))]
        self.devices: dict[int, list[float]] = {}  # of the GPUs, by their position
        tables: dict[tuple[int, ...], list[float]] = {}  # most GPUs of a node are alike
        for position in profile.gpus:
            singles = [each for each, gpus in served if position in gpus and each.demand.count == 1]
            like = tuple(map(id, singles))
            if like not in tables:
                tables[like] = _device_table(singles)
            self.devices[position] = tables[like]
        several = [each for each, _ in served if each.demand.count > 1]
        self._whole = [_whole_value(several, count) for count in range(len(profile.gpus) + 1)]
        self._by_position = tuple(self.devices.items())
        self._total = sum(each.weight for each, _ in served)
        self._cores = _Stranded(
            [(each.demand.cores / each.total_milli, each.weight) for each, _ in served]
        )
        self._memory = _Stranded(
            [(each.demand.memory_bytes / each.total_milli, each.weight) for each, _ in served]
        )

    def of(self, capacity: NodeCapacity) -> tuple[float, float, int, int]:
        """The value of a node and its terms: devices, free thousandths, whole devices."""
        devices, free, milli_of = 0.0, 0, capacity.milli
        for position, table in self._by_position:
            milli = milli_of[position]
            if milli:
                devices += table[milli]
                free += milli
        value = self.value(
            devices, capacity.whole_gpus, free, capacity.cores, capacity.memory_bytes
        )
        return value, devices, free, capacity.whole_gpus

    def value(self, devices: float, whole: int, free: int, cores: int, memory_bytes: int) -> float:
        """Asked twice for each score, so it is written in one piece."""
        if not free:
            return 0.0
        few, left = self._cores, cores / free
        index = bisect_right(few.needs, left)
        stranded = few.weights[index] - left * few.by_need[index]
        few, left = self._memory, memory_bytes / free
        index = bisect_right(few.needs, left)
        stranded += few.weights[index] - left * few.by_need[index]
        if stranded > self._total:
            stranded = self._total
        return devices + self._whole[whole] - free * stranded


def _device_table(classes: Sequence[TaskClass]) -> list[float]:
    """The value of 0 to 1000 free thousandths of a device."""
    starts = [0.0] * (WHOLE_DEVICE_MILLI + 1)
    for each in classes:
        starts[each.milli] += each.weight
    table, weight = [], 0.0
    for milli, start in enumerate(starts):
        weight += start
        table.append(milli * weight)
    return table


def _whole_value(classes: Sequence[TaskClass], count: int) -> float:
    weight = sum(each.weight for each in classes if each.demand.count <= count)
    return count * WHOLE_DEVICE_MILLI * weight


class _Stranded:
    """The unusable part of the free devices, by the cores or memory left per thousandth.

    A task that needs twice as much as there is can use half of them. With `left` per thousandth,
    the part is `weights[i] - left * by_need[i]`, where `i` is the number of needs up to `left`.
    """

    def __init__(self, needs: list[tuple[float, float]]) -> None:
        needs.sort()
        self.needs = [need for need, _ in needs]
        # Suffix sums over the needs from index i on: of weights, and of weights divided by need.
        self.weights = [0.0] * (len(needs) + 1)
        self.by_need = [0.0] * (len(needs) + 1)
        for index in range(len(needs) - 1, -1, -1):
            need, weight = needs[index]
            self.weights[index] = self.weights[index + 1] + weight
            self.by_need[index] = self.by_need[index + 1] + weight / need
