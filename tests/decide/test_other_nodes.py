"""After a loss a task goes to another node, and back where it was when there is no other left."""

from msgspec.structs import replace

from potluck.decide.scheduler import Scheduler
from potluck.decide.types import FreeNode
from potluck.model.ids import AccountId, NodeId, TaskId
from tests.decide.builders import gpu, task
from tests.decide.schedulers import NOW, node_with, scheduler

LOST = {"failed_on": frozenset({NodeId("lost it")}), "min_reliability": 0.9}


def busy(name: str) -> FreeNode:
    return replace(node_with(name, 1), devices=(gpu(f"{name}-g0", free_milli=0),))


def waits_for(*others: FreeNode) -> Scheduler:
    """One task, beside a free node that has failed it."""
    pool = scheduler()
    pool.put_node(node_with("lost it", 1))
    for free_node in others:
        pool.put_node(free_node)
    pool.put_task(task("t1", **LOST))
    assert not pool.plan(NOW, 10).assignments
    return pool


def placed(pool: Scheduler) -> list[str]:
    return [assignment.node_id for assignment in pool.plan(NOW + 1, 10).assignments]


def test_without_other_nodes_the_task_is_retried_on_the_same_node() -> None:
    pool = waits_for(busy("n1"), busy("n2"))
    pool.drop_node(NodeId("n1"))
    assert placed(pool) == []
    pool.drop_node(NodeId("n2"))
    assert placed(pool) == ["lost it"]


def test_without_other_reliable_nodes_the_task_is_retried_on_the_same_node() -> None:
    pool = waits_for(replace(busy("n1"), reliability=0.901))
    pool.put_node(replace(busy("n1"), reliability=0.899))
    assert placed(pool) == ["lost it"]


def test_a_task_that_a_node_can_run_by_now_is_not_reported_as_unplaceable() -> None:
    pool = waits_for(busy("n1"))
    pool.drop_node(NodeId("n1"))
    explanation = pool.explain(TaskId("t1"), NOW + 1)
    assert explanation is not None and explanation.reason.code == "in_line"
    pool.drop_node(NodeId("lost it"))
    explanation = pool.explain(TaskId("t1"), NOW + 1)
    assert explanation is not None and explanation.reason.code == "no_nodes"


def owned(name: str, wallet: str) -> FreeNode:
    return replace(node_with(name, 1), wallet=wallet, account_id=AccountId(wallet))


def test_after_a_failure_nodes_of_other_owners_come_first() -> None:
    """Whichever the order of the nodes: an owner with two nodes gets no second attempt at once."""
    for names in (("a", "b"), ("b", "a")):
        pool = scheduler()
        for name in ("lost it", names[0]):
            pool.put_node(owned(name, "bob"))
        pool.put_node(owned(names[1], "carol"))
        pool.put_task(task("t1", failed_on=LOST["failed_on"]))
        assert placed(pool) == [names[1]]


def test_without_another_owner_the_task_goes_to_another_node() -> None:
    pool = scheduler()
    for name in ("lost it", "spare"):
        pool.put_node(owned(name, "bob"))
    pool.put_task(task("t1", failed_on=LOST["failed_on"]))
    assert placed(pool) == ["spare"]


def test_a_doubted_node_gets_work_only_if_no_other_is_free() -> None:
    for names in (("a", "b"), ("b", "a")):
        pool = scheduler()
        pool.put_node(replace(node_with(names[0], 1), is_doubted=True))
        pool.put_node(node_with(names[1], 1))
        pool.put_task(task("t1"))
        assert placed(pool) == [names[1]]
        pool.put_task(task("t2"))
        assert placed(pool) == [names[0]]
