"""What a scheduling round promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.decide.scheduler import SchedulerPlan
from potluck.decide.types import AccountShare, FreeNode, WaitingTask
from potluck.model.device import DeviceKind
from potluck.model.task import GIB
from tests.decide.builders import ALICE, BOB, cpu, gpu, node, task
from tests.decide.schedulers import NOW, scheduler


def plan(
    tasks: list[WaitingTask], nodes: list[FreeNode], available_micro: int = 0
) -> SchedulerPlan:
    """The first round of a scheduler that has been told all this."""
    pool = scheduler("fair", reason_seconds=0.0)
    for account_id in sorted({waiting_task.account_id for waiting_task in tasks}):
        pool.put_account(AccountShare(account_id, available_micro=available_micro))
    for offered in nodes:
        pool.put_node(offered)
    for waiting_task in tasks:
        pool.put_task(waiting_task)
    return pool.plan(NOW, 10_000)


def placed(result: SchedulerPlan) -> dict[str, str]:
    return {assignment.task_id: assignment.node_id for assignment in result.assignments}


def test_higher_priority_first_then_who_came_first() -> None:
    tasks = [task("b-young"), task("a-old"), task("c-urgent", priority=5)]
    for count, expected in enumerate((["c-urgent"], ["a-old", "c-urgent"]), start=1):
        result = plan(tasks, [node(f"n{i}") for i in range(count)])
        assert sorted(placed(result)) == expected


def test_a_gpu_is_given_whole_and_a_cpu_by_cores() -> None:
    tasks = [task(f"t{i}", cores=2) for i in range(5)]
    assert len(placed(plan(tasks, [node("n1", gpu())]))) == 1
    assert len(placed(plan(tasks, [node("n1", cpu())]))) == 4


REFUSED = [
    # (what the task wants, what the node is, the code of the reason)
    ({}, {"own_tasks_only": True}, "own_tasks_only"),
    ({"device_kind": DeviceKind.CPU}, {}, "device_kind"),
    ({"device_model": "A100"}, {}, "device_model"),
    ({"device_memory_bytes": 25 * GIB}, {}, "device_memory"),
    ({"device_count": 2}, {}, "device_count"),
    ({"max_price_micro_per_hour": 1}, {"devices": (gpu(price_micro_per_hour=2),)}, "price"),
    ({"cores": 9}, {}, "cores"),
    ({}, {"devices": (gpu(free_milli=999),)}, "device_busy"),
    ({"memory_bytes": 17 * GIB}, {}, "node_busy"),
    ({"disk_bytes": 17 * GIB}, {}, "node_busy"),
    ({}, {"free_cores": 0}, "node_busy"),
    ({}, {"devices": (gpu(price_micro_per_hour=2),)}, "credit"),
]


@pytest.mark.parametrize(
    ("requirements", "offered", "code"), REFUSED, ids=[row[2] for row in REFUSED]
)
def test_every_waiting_task_has_a_reason(requirements: dict, offered: dict, code: str) -> None:  # type: ignore[type-arg]
    result = plan([task(**requirements)], [node(**offered)])
    assert not result.assignments
    assert [waiting_group.reason.code for waiting_group in result.waiting.values()] == [code]


def test_no_node_at_all_is_said_with_what_to_do() -> None:
    (waiting,) = plan([task()], []).waiting.values()
    assert waiting.reason.code == "no_nodes" and "potluck provide" in waiting.reason.sentence


def test_a_node_without_sandbox_serves_its_owner() -> None:
    own_node = node(account_id=ALICE, own_tasks_only=True)
    assert placed(plan([task(account_id=ALICE)], [own_node]))
    assert not placed(plan([task(account_id=BOB)], [own_node]))


def test_a_model_pattern_matches_any_part_in_any_case() -> None:
    for pattern in ("rtx 40*", "RTX", "*4090", "nvidia*"):
        assert placed(plan([task(device_model=pattern)], [node()]))


def test_after_a_loss_another_node_is_preferred_and_the_same_one_if_there_is_no_other() -> None:
    lost_task = task(failed_on=frozenset({"n1"}))
    assert placed(plan([lost_task], [node("n1"), node("n2")])) == {"t1": "n2"}
    assert placed(plan([lost_task], [node("n1")])) == {"t1": "n1"}


def test_the_cheapest_node_first() -> None:
    nodes = [node("dear", gpu("d", price_micro_per_hour=9)), node("cheap", gpu("c"))]
    assert placed(plan([task()], nodes, available_micro=100)) == {"t1": "cheap"}


def test_the_purse_is_spent_once() -> None:
    nodes = [node(f"n{i}", gpu(f"g{i}", price_micro_per_hour=10)) for i in range(3)]
    tasks = [task(f"t{i}", run_seconds=3600.0) for i in range(3)]
    assert len(placed(plan(tasks, nodes, available_micro=20))) == 2


tasks_strategy = st.lists(
    st.builds(
        task,
        st.uuids().map(str),
        priority=st.integers(-2, 2),
        device_count=st.integers(1, 3),
        cores=st.integers(1, 8),
        memory_bytes=st.integers(1, 12).map(lambda n: n * GIB),
        run_seconds=st.sampled_from([1.0, 3600.0]),
    ),
    max_size=12,
    unique_by=lambda item: item.id,
)
nodes_strategy = st.lists(
    st.integers(1, 4).flatmap(
        lambda count: st.builds(
            lambda name, kind, price: node(
                name, *[kind(f"{name}-{i}", price_micro_per_hour=price) for i in range(count)]
            ),
            st.uuids().map(str),
            st.sampled_from([gpu, cpu]),
            st.integers(0, 50),
        )
    ),
    max_size=4,
    unique_by=lambda item: item.id,
)


@given(tasks_strategy, nodes_strategy, st.integers(0, 200))
def test_never_over_commits_and_answers_for_every_task(
    tasks: list[WaitingTask], nodes: list[FreeNode], available_micro: int
) -> None:
    result = plan(tasks, nodes, available_micro)
    assert plan(tasks, nodes, available_micro) == result, "the same input gives the same plan"
    assert result.is_complete
    assert (
        sum(assignment.hold_micro for assignment in result.assignments) <= available_micro
        or not tasks
    )
    _check_capacity(nodes, result)


def _check_capacity(nodes: list[FreeNode], result: SchedulerPlan) -> None:
    for offered in nodes:
        assignments = [
            assignment for assignment in result.assignments if assignment.node_id == offered.id
        ]
        node_requirements = [assignment.requirements for assignment in assignments]
        assert sum(requirement.cores for requirement in node_requirements) <= offered.free_cores
        assert (
            sum(requirement.memory_bytes for requirement in node_requirements)
            <= offered.free_memory_bytes
        )
        assert (
            sum(requirement.disk_bytes for requirement in node_requirements)
            <= offered.free_disk_bytes
        )
        for device in offered.devices:
            shares = [
                s.milli
                for assignment in assignments
                for s in assignment.shares
                if s.device_id == device.id
            ]
            assert sum(shares) <= device.free_milli
