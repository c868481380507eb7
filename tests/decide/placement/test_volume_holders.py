"""A task goes where its volumes are, unless that would cost its owner anything."""

from typing import Any

from potluck.decide.types import AccountShare, FreeNode, WaitingTask
from potluck.model.blob import VolumeMount
from potluck.model.ids import NodeId
from tests.decide.builders import ALICE, gpu, node, task
from tests.decide.schedulers import NOW, scheduler

DATA = VolumeMount("data", "/data", "1" * 64, "0xowner", size_bytes=1_000)
MORE = VolumeMount("more", "/more", "2" * 64, "0xowner", size_bytes=5)
FOREIGN = VolumeMount("data", "/data", "1" * 64, "0xother", size_bytes=1_000)


def holder(name: str, *mounts: VolumeMount, price: int = 0, **changes: Any) -> FreeNode:
    keys = frozenset(mount.held_key for mount in mounts)
    device = gpu(f"{name}-g", price_micro_per_hour=price)
    return node(name, device, held_volumes=keys, volumes_bytes=10**6, **changes)


def placed(*nodes: FreeNode, task: WaitingTask) -> str:
    pool = scheduler()
    pool.put_account(AccountShare(ALICE, available_micro=10**9))
    for free_node in nodes:
        pool.put_node(free_node)
    pool.put_task(task)
    (assignment,) = pool.plan(NOW, 10).assignments
    return assignment.node_id


def mounting(*mounts: VolumeMount, **changes: Any) -> WaitingTask:
    return task("t", volumes=mounts, submitted_at=NOW, **changes)


def test_a_node_that_holds_the_volume_comes_first_under_every_policy() -> None:
    for name in ("n1", "n2", "n3"):
        nodes = [
            holder(node_name, *([DATA] if node_name == name else []))
            for node_name in ("n1", "n2", "n3")
        ]
        assert placed(*nodes, task=mounting(DATA)) == name


def test_the_more_it_holds_the_better() -> None:
    nodes = [holder("n1", MORE), holder("n2", DATA), holder("n3", DATA, MORE)]
    assert placed(*nodes, task=mounting(DATA, MORE)) == "n3"
    assert placed(*nodes[:2], task=mounting(DATA, MORE)) == "n2"


def test_the_same_data_of_somebody_else_is_another_volume() -> None:
    usual = placed(holder("n1"), holder("n2"), task=mounting(DATA))
    for name in ("n1", "n2"):
        nodes = [
            holder(node_name, *([FOREIGN] if node_name == name else []))
            for node_name in ("n1", "n2")
        ]
        assert placed(*nodes, task=mounting(DATA)) == usual


def test_a_holder_gets_no_higher_price() -> None:
    assert placed(holder("n1"), holder("n2", DATA, price=1), task=mounting(DATA)) == "n1"
    assert placed(holder("n1", price=2), holder("n2", DATA, price=2), task=mounting(DATA)) == "n2"


def test_nor_one_that_failed_the_task_or_is_doubted() -> None:
    failed = mounting(DATA, failed_on=frozenset({NodeId("n2")}))
    assert placed(holder("n1"), holder("n2", DATA), task=failed) == "n1"
    doubted = holder("n2", DATA, is_doubted=True)
    assert placed(holder("n1"), doubted, task=mounting(DATA)) == "n1"


def test_a_busy_holder_is_not_waited_for() -> None:
    busy = holder("n2", DATA, free_cores=0)
    assert placed(holder("n1"), busy, task=mounting(DATA)) == "n1"


def test_volumes_that_a_node_no_longer_holds_are_forgotten() -> None:
    pool = scheduler()
    for free_node in (holder("n1"), holder("n2", DATA), holder("n3")):
        pool.put_node(free_node)
    pool.put_node(holder("n2"))
    pool.put_node(holder("n3", DATA))
    pool.drop_node(NodeId("n1"))
    pool.put_task(mounting(DATA))
    (assignment,) = pool.plan(NOW, 10).assignments
    assert assignment.node_id == "n3"
