"""Which devices would do is remembered for those that ask alike, within bounds."""

from potluck.decide.pool.suitable import Suitability
from potluck.model.device import DeviceKind
from potluck.model.ids import NodeId
from tests.decide.builders import BOB, task
from tests.decide.pool import node_with, with_cpu


def test_what_is_remembered_is_bounded_however_many_ask_for_what() -> None:
    known = Suitability()
    for number in range(1200):
        known.put_node(node_with(f"n{number}", 1))
    for number in range(600):
        found = known.devices(task(disk_bytes=2**20 + number))
    assert len(found) == 1000
    assert known.remembered == 512


def test_who_asks_again_is_answered_from_memory() -> None:
    known = Suitability()
    known.put_node(node_with("n1", 2))
    first = known.devices(task())
    for number in range(500):
        known.devices(task(disk_bytes=2**20 + number))
        assert known.devices(task()) is first


def test_gpus_are_had_whole_and_a_cpu_is_not() -> None:
    known = Suitability()
    known.put_node(with_cpu(node_with("n1", 2)))
    for kind, whole, shared in ((DeviceKind.GPU, 2, 0), (DeviceKind.CPU, 0, 1), (None, 2, 1)):
        usable = known.devices(task(device_kind=kind))[NodeId("n1")]
        assert (len(usable.whole), usable.shared) == (whole, shared)


def test_a_node_that_failed_the_task_counts_only_if_there_is_no_other() -> None:
    known = Suitability()
    known.put_node(node_with("n1", 1))
    failed = task(failed_on=frozenset({NodeId("n1")}))
    assert set(known.devices(failed)) == {"n1"}
    known.put_node(node_with("n2", 1))
    assert set(known.devices(failed)) == {"n2"}


def test_who_has_nodes_for_its_own_tasks_is_known_as_long_as_it_has_one() -> None:
    known = Suitability()
    known.put_node(node_with("n0", 1))
    none = known.hosts
    for name in ("n1", "n2"):
        known.put_node(node_with(name, 1, own_tasks_only=True))
    hosts = known.hosts
    assert hosts == {BOB} and not none
    known.drop_node(NodeId("n1"))
    known.put_node(node_with("n3", 1))
    assert known.hosts is hosts, "it is not made anew for what does not change it"
    known.drop_node(NodeId("n2"))
    assert not known.hosts
