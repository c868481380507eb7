"""Which devices would do is remembered for those that ask alike, within bounds."""

from typing import Any

import pytest
from msgspec.structs import replace

from potluck.decide.placement import PLACEMENTS
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.pool.suitable_devices import Suitability
from potluck.decide.types import FreeNode
from potluck.model.device import DeviceKind
from potluck.model.ids import NodeId
from tests.decide.builders import BOB, gpu, task
from tests.decide.schedulers import node_with, with_cpu


def suitability(*nodes: FreeNode) -> Suitability:
    capacity = PoolCapacity(PLACEMENTS["fragmentation"]())
    for node in nodes:
        capacity.put_node(node)
    return Suitability(capacity)


def test_the_number_of_remembered_demands_is_bounded() -> None:
    suitable = suitability(*(node_with(f"n{number}", 1) for number in range(1200)))
    for number in range(600):
        usable_devices = suitable.devices(task(disk_bytes=2**20 + number))
    assert len(usable_devices) == 1000
    assert suitable.remembered == 512


def test_a_repeated_demand_is_answered_from_memory() -> None:
    suitable = suitability(node_with("n1", 2))
    first = suitable.devices(task())
    for number in range(500):
        suitable.devices(task(disk_bytes=2**20 + number))
        assert suitable.devices(task()) is first


def test_gpus_are_had_whole_and_a_cpu_is_not() -> None:
    suitable = suitability(with_cpu(node_with("n1", 2)))
    for kind, whole_count, shared in ((DeviceKind.GPU, 2, 0), (DeviceKind.CPU, 0, 1), (None, 2, 1)):
        usable = suitable.devices(task(device_kind=kind))[NodeId("n1")]
        assert (len(usable.whole), usable.shared) == (whole_count, shared)


def test_a_node_that_failed_the_task_is_used_only_if_there_is_no_other() -> None:
    failed = task(failed_on=frozenset({NodeId("n1")}))
    first, other = node_with("n1", 1), node_with("n2", 1)
    assert set(suitability(first).devices(failed)) == {"n1"}
    assert set(suitability(first, other).devices(failed)) == {"n2"}


def test_one_node_gives_the_same_result_as_all() -> None:
    nodes = [with_cpu(node_with(f"n{n}", n, reliability=n / 10)) for n in range(1, 9)]
    suitable = suitability(*nodes)
    waiting_task = task(device_kind=DeviceKind.GPU, device_count=3, min_reliability=0.5)
    of_all = suitable.devices(waiting_task)
    assert set(of_all) == {"n5", "n6", "n7", "n8"}
    for node in nodes:
        assert suitable.on(waiting_task, node.id) is of_all.get(node.id)


def test_nodes_are_of_one_kind_if_they_differ_in_their_names_only() -> None:
    nodes = [node_with(f"n{n}", 1, reliability=0.9 if n < 3 else 0.5) for n in range(5)]
    kinds = suitability(*nodes, node_with("large", 2)).kinds()
    assert sorted(count for _, count in kinds) == [1, 2, 3]


@pytest.mark.parametrize(
    "naming",
    [
        {"own_tasks_only": True},
        {"devices": (gpu(allow=frozenset({BOB})), gpu("g2"))},
        {"devices": (gpu(), gpu("g2", deny=frozenset({BOB})))},
    ],
)
def test_named_accounts_are_known_while_a_node_names_them(naming: dict[str, Any]) -> None:
    capacity = PoolCapacity(PLACEMENTS["fragmentation"]())
    capacity.put_node(node_with("n0", 1))
    named_before = capacity.named
    for name in ("n1", "n2"):
        capacity.put_node(replace(node_with(name, 1), **naming))
    named_now = capacity.named
    assert named_now == {BOB} and not named_before
    capacity.drop_node(NodeId("n1"))
    capacity.put_node(node_with("n3", 1))
    assert capacity.named is named_now, "it is not made anew for what does not change it"
    capacity.drop_node(NodeId("n2"))
    assert not capacity.named
