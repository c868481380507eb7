"""Which node of those that fit: none that failed this task, the cheapest, then the fullest."""

from collections.abc import Sequence

from potluck.decide.feasible import Fit
from potluck.decide.snapshot import WaitingTask


def best(task: WaitingTask, fits: Sequence[Fit]) -> Fit:
    assert fits, "there is nothing to choose from"
    return min(fits, key=lambda fit: _rank(task, fit))


def _rank(task: WaitingTask, fit: Fit) -> tuple[bool, int, int, str]:
    """Filling up the fullest node first leaves whole nodes free for large tasks."""
    node = fit.node
    return (node.id in task.failed_on, fit.price_micro_per_hour, node.free_cores, node.id)
