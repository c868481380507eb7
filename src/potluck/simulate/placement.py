"""Measures how much of a pool a placement can fill, by the method of the FGD paper.

The list is shuffled by a seed, and tasks are drawn from it again until they request 130 % of the
GPUs. They arrive one by one, none ends, and a task that fits nowhere is dropped. The result is the
allocated part of the GPUs when the tasks so far have requested 100 and 130 % of them.
"""

from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from potluck.decide.placement.interface import Placement
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.types import WaitingTask
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import Limits, Requirements
from potluck.simulate.openb import Trace, gpu_milli

_ACCOUNT = AccountId("openb")
_LIMITS = Limits()
_MOST_PERCENT = 130


class PlacementPoint(Struct, frozen=True):
    asked_percent: float
    allocated_percent: float


class SeedResult(Struct, frozen=True):
    seed: int
    allocated_at_100: float
    allocated_at_130: float


class PlacementResult(Struct, frozen=True):
    policy: str
    allocated_at_100: float  # percent, the mean of all seeds
    allocated_at_130: float
    per_seed: list[SeedResult]


class PlacementRun(Struct, frozen=True):
    result: PlacementResult
    curve: list[PlacementPoint]  # the mean of all seeds


def simulate_placement(
    trace: Trace,
    policy: str,
    placement: Callable[[], Placement],
    seeds: Sequence[int],
    is_mix_known: bool,
) -> PlacementRun:
    """With a known mix the placement learns the list in advance, as in the paper; otherwise it
    learns from the tasks as they arrive, as in a pool."""
    curves = [fill_pool(trace, placement(), seed, is_mix_known) for seed in seeds]
    per_seed = [
        SeedResult(seed, curve[100].allocated_percent, curve[130].allocated_percent)
        for seed, curve in zip(seeds, curves, strict=True)
    ]
    mean = [_mean_point(points) for points in zip(*curves, strict=True)]
    result = PlacementResult(
        policy, mean[100].allocated_percent, mean[130].allocated_percent, per_seed
    )
    return PlacementRun(result, mean)


def fill_pool(
    trace: Trace, placement: Placement, seed: int, is_mix_known: bool
) -> list[PlacementPoint]:
    """The allocated percentage when 0, 1, … 130 % had been requested."""
    capacity = PoolCapacity(placement)
    for node in trace.nodes:
        capacity.put_node(node)
    if is_mix_known:
        for requirements in trace.tasks:
            capacity.learn(requirements)
    requested, allocated, total = 0, 0, trace.gpu_milli
    curve = [PlacementPoint(0.0, 0.0)]
    for number, requirements in enumerate(arrivals(trace, seed)):
        if not is_mix_known:
            capacity.learn(requirements)
        milli = gpu_milli(requirements)
        requested += milli
        if _is_placed(capacity, number, requirements):
            allocated += milli
        while requested * 100 >= len(curve) * total and len(curve) <= _MOST_PERCENT:
            curve.append(PlacementPoint(float(len(curve)), 100 * allocated / total))
    return curve


def arrivals(trace: Trace, seed: int) -> list[Requirements]:
    chance = Random(seed)
    tasks = list(trace.tasks)
    chance.shuffle(tasks)
    requested, enough = sum(map(gpu_milli, tasks)), _MOST_PERCENT * trace.gpu_milli
    while requested * 100 < enough:
        tasks.append(chance.choice(trace.tasks))
        requested += gpu_milli(tasks[-1])
    return tasks


def _is_placed(capacity: PoolCapacity, number: int, requirements: Requirements) -> bool:
    task = WaitingTask(TaskId(str(number)), _ACCOUNT, requirements, _LIMITS, 0)
    fit = capacity.find(task)
    if fit is not None:
        capacity.take(task, fit)
    return fit is not None


def _mean_point(points: Sequence[PlacementPoint]) -> PlacementPoint:
    allocated = sum(point.allocated_percent for point in points) / len(points)
    return PlacementPoint(points[0].asked_percent, allocated)
