"""The mix of tasks that free devices should suit."""

from potluck.decide.placement.task_mix import TaskMix
from potluck.decide.pool.node_capacity import NodeProfile, profile_key
from tests.decide.builders import task
from tests.decide.schedulers import node_with


def test_kinds_of_nodes_that_are_gone_are_forgotten() -> None:
    mix = TaskMix()
    mix.add(task().requirements, 1)
    for number in range(100):
        free_node = node_with(f"n{number}", 1, labels=frozenset({f"run-{number}"}))
        profile = NodeProfile(free_node, profile_key(free_node, ()))
        mix.weigh([profile])
    assert [list(task_class.demand.usable) for task_class in mix.classes()] == [[profile]]
