"""A task with whole GPUs gets their share of the node, unless it says what it needs."""

from typing import Any

import pytest

from potluck.decide.placement import PLACEMENTS
from potluck.decide.pool.capacity import PoolCapacity
from potluck.model.ids import AttemptId
from potluck.model.task import GIB, MIB, Requirements
from tests.decide.builders import ALICE, BOB, cpu, gpu, node, task
from tests.decide.schedulers import NOW, scheduler

FOUR = tuple(gpu(f"g{number}") for number in range(4))
TOTALS: dict[str, Any] = {
    "cores": 32,
    "free_cores": 32,
    "memory_bytes": 128 * GIB,
    "free_memory_bytes": 128 * GIB,
    "disk_bytes": 400 * GIB,
    "free_disk_bytes": 400 * GIB,
    "gpu_share": 1.0,
}


def amounts(requirements: Requirements | None) -> tuple[int, float, float]:
    assert requirements is not None
    return requirements.cores, requirements.memory_bytes / GIB, requirements.disk_bytes / GIB


def taken(pool: PoolCapacity, **fields: Any) -> tuple[int, float, float]:
    waiting_task = task(**fields)
    placement = pool.find(waiting_task)
    assert placement is not None
    return amounts(pool.take(waiting_task, placement).requirements)


def pool_of(*devices: Any, **changes: Any) -> PoolCapacity:
    pool = PoolCapacity(PLACEMENTS["fragmentation"]())
    pool.put_node(node("n1", *(devices or FOUR), **{**TOTALS, **changes}))
    return pool


@pytest.mark.parametrize(
    ("requirements", "changes", "expected"),
    [
        ({}, {}, (8, 32, 100)),
        ({"device_count": 2}, {}, (16, 64, 200)),
        # What was requested stays as it is, smaller or larger.
        ({"cores": 2, "memory_bytes": 2 * GIB}, {}, (2, 2, 100)),
        ({"cores": 30, "disk_bytes": GIB}, {}, (30, 32, 1)),
        # A fraction keeps the defaults.
        ({"device_milli": 500}, {}, (1, 1, 0.25)),
        ({}, {"gpu_share": 0.5}, (4, 16, 50)),
        ({}, {"gpu_share": 0.0}, (1, 1, 0.25)),
        # No more than is free, and no less than it would have anyway.
        ({}, {"free_cores": 3, "free_memory_bytes": GIB, "free_disk_bytes": GIB}, (3, 1, 1)),
        ({}, {"others_disk_in_memory": True, "account_id": BOB}, (8, 32, 32 / 3)),
        ({}, {"others_disk_in_memory": True, "account_id": ALICE}, (8, 32, 100)),
    ],
)
def test_a_gpu_task_gets_its_share_of_the_node(
    requirements: dict[str, Any], changes: dict[str, Any], expected: tuple[int, float, float]
) -> None:
    assert taken(pool_of(**changes), **requirements) == pytest.approx(expected, abs=MIB / GIB)


def test_tasks_share_the_node_by_its_gpus_and_free_it() -> None:
    pool = pool_of()
    waiting_tasks = [task(f"t{number}") for number in range(4)]
    fits = []
    for waiting_task in waiting_tasks:
        placement = pool.find(waiting_task)
        assert placement is not None
        fits.append(pool.take(waiting_task, placement))
    assert [amounts(fit.requirements) for fit in fits] == [(8, 32, 100)] * 4
    for waiting_task, fit in zip(waiting_tasks, fits, strict=True):
        pool.untake(waiting_task, fit)
    assert taken(pool, device_count=4) == (32, 128, 400)


def test_a_processor_keeps_the_defaults() -> None:
    assert taken(pool_of(cpu("c1"))) == (1, 1, 0.25)


def test_requested_and_not_granted_amounts_identify_the_task_group() -> None:
    pool = scheduler()
    pool.put_node(node("n1", *FOUR, **TOTALS))
    pool.put_task(task("t1"))
    (assigned,) = pool.plan(NOW, 10).assignments
    assert amounts(assigned.requirements) == (8, 32, 100)
    running = assigned.running(AttemptId("a1"), ALICE, 1.0)
    assert (running.cores, running.requirements) == (8, task("t1").requirements)
