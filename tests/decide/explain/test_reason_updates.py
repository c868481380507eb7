"""What is told of lines that wait: each reason once, and anew when it no longer holds."""

from potluck.decide.arrays.node_speed import ArrayProgress
from potluck.decide.scheduler import Scheduler, SchedulerPlan
from potluck.decide.types import AccountShare
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import GIB, ItemRange
from tests.decide.builders import ALICE, BOB, node, task
from tests.decide.schedulers import NOW, node_with, scheduler

MANY = 1_000


def told(plan: SchedulerPlan) -> dict[str, str]:
    """By the task that stands for its line."""
    return {
        waiting_group.example.id: waiting_group.reason.sentence
        for waiting_group in plan.waiting.values()
    }


def test_the_reason_is_updated_when_nodes_join_and_leave() -> None:
    pool = scheduler()
    pool.put_task(task("t1", memory_bytes=2 * GIB))
    assert told(pool.plan(NOW, MANY)) == {
        "t1": "No provider is online. Start one with `potluck provide URL`."
    }
    pool.put_node(node("n1", memory_bytes=GIB))
    pool.put_node(node("n2", memory_bytes=GIB))
    assert told(pool.plan(NOW + 10, MANY)) == {"t1": "2 nodes have too little memory."}
    assert told(pool.plan(NOW + 20, MANY)) == {}
    pool.drop_node(NodeId("n1"))
    assert told(pool.plan(NOW + 21, MANY)) == {"t1": "1 node has too little memory."}
    pool.put_node(node("n2", memory_bytes=GIB, labels=frozenset({"attic"})))
    assert told(pool.plan(NOW + 22, MANY)) == {}, "not again within a few seconds"
    pool.drop_node(NodeId("n2"))
    assert set(told(pool.plan(NOW + 30, MANY))) == {"t1"}


def test_a_node_that_only_becomes_busy_or_free_raises_no_doubt() -> None:
    pool = scheduler()
    pool.put_node(node("n1", memory_bytes=GIB))
    pool.put_task(task("t1", memory_bytes=2 * GIB))
    pool.plan(NOW, MANY)
    counted = 0
    refusals = pool._capacity.refusals

    def watched(demand: object) -> object:
        nonlocal counted
        counted += 1
        return refusals(demand)  # type: ignore[arg-type]

    pool._capacity.refusals = watched  # type: ignore[method-assign, assignment]
    for second in range(1, 100):
        pool.put_node(node("n1", memory_bytes=GIB, free_cores=second % 8))
        pool.plan(NOW + second, MANY)
    assert counted == 0


def test_plans_report_when_all_reasons_were_published() -> None:
    pool = scheduler()
    for number in range(10):
        pool.put_task(task(f"t{number}", memory_bytes=GIB + number))
    plans = [pool.plan(NOW, MANY) for _ in range(3)]
    assert [plan.has_all_reasons for plan in plans] == [False, False, True]
    assert len({task_id for plan in plans for task_id in plan.waiting}) == 10


def test_a_line_that_is_left_empty_is_told_of_once() -> None:
    pool = scheduler()
    pool.put_task(task("t1"))
    (key,) = pool.plan(NOW, MANY).waiting
    pool.put_node(node_with("n1", 1))
    plan = pool.plan(NOW + 1, MANY)
    assert len(plan.assignments) == 1 and plan.emptied == (key,)
    assert pool.plan(NOW + 2, MANY).emptied == ()
    pool.put_task(task("t2"))
    pool.drop_task(TaskId("t2"))
    assert pool.plan(NOW + 3, MANY).emptied == (), "nothing had been told of it"


def test_a_line_that_an_array_has_left_is_empty() -> None:
    """One that is at its quota, and takes longer and longer as it goes on."""
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, most_running_milli=1000))
    pool.put_node(node_with("n1", 2))
    pool.put_task(task("first"))
    assert len(pool.plan(NOW, MANY).assignments) == 1
    plans = []
    for number, seconds in enumerate((1.0, 2.0, 4.0, 1.0)):
        pool.put_task(task("array", pending=(ItemRange(0, 9),), expected_seconds=seconds))
        plans.append(pool.plan(NOW + number, MANY))
    keys = [key for plan in plans for key in plan.waiting]
    assert len(keys) == 4 and keys[0] == keys[3], "told each time, also when it is back"
    assert [plan.emptied for plan in plans] == [(), *((key,) for key in keys[:3])]
    pool.drop_task(TaskId("array"))
    assert pool.plan(NOW + 9, MANY).emptied == (keys[3],)


def test_a_task_larger_than_the_quota_is_said_to_never_start() -> None:
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, most_running_milli=2000))
    pool.put_node(node_with("n1", 8))
    pool.put_task(task("t1", device_count=3))
    (waiting,) = pool.plan(NOW, MANY).waiting.values()
    assert (
        waiting.reason.code == "quota"
        and "than the account's quota allows" in waiting.reason.sentence
    )
    explanation = pool.explain(TaskId("t1"), NOW)
    assert explanation is not None and explanation.forecast is None
    pool.put_account(AccountShare(ALICE, most_running_milli=3000))
    assert len(pool.plan(NOW + 1, MANY).assignments) == 1


def slow_pool() -> Scheduler:
    """An array at work on one node, and another that would need far longer for one item."""
    pool = scheduler()
    pool.put_node(node_with("quick", 1))
    pool.put_task(task("array", pending=(ItemRange(0, 3),), expected_seconds=1.0))
    assert len(pool.plan(NOW, MANY).assignments) == 1
    pool.observed(TaskId("array"), {NodeId("slow"): ArrayProgress(500.0)})
    pool.put_node(node_with("slow", 1))
    return pool


def test_an_array_that_passes_over_slow_nodes_is_told_so() -> None:
    told_of = slow_pool().plan(NOW + 1, MANY).waiting.values()
    assert [(waiting_group.example.id, waiting_group.reason.code) for waiting_group in told_of] == [
        ("array", "slow")
    ]


def test_a_task_behind_an_array_that_skips_slow_nodes_gets_the_slow_node() -> None:
    pool = slow_pool()
    pool.put_task(task("other", submitted_at=NOW, expected_seconds=1.0))
    pool.put_task(task("array 2", pending=(ItemRange(0, 3),), submitted_at=NOW + 1))
    pool.put_task(task("others", account_id=BOB, submitted_at=NOW + 2))
    (assignment,) = pool.plan(NOW + 1, MANY).assignments
    assert (assignment.task_id, assignment.node_id) == ("other", "slow")
