"""How long a task will probably take, and how much of the pool."""

from potluck.decide.arrays.ranges import GOOD_SECONDS
from potluck.decide.types import WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI


def run_seconds(task: WaitingTask) -> float:
    """Of one attempt at a single task, or of one item; the limit where nobody knows better."""
    limit = task.limits.run_seconds
    return limit if task.expected_seconds is None else min(task.expected_seconds, limit)


def attempt_seconds(task: WaitingTask) -> float:
    """Of the next attempt. Of an array that is a range, cut to a few seconds once that is known."""
    each = run_seconds(task)
    if not task.pending or task.expected_seconds is None:
        return each
    return min(each + GOOD_SECONDS, each * sum(map(len, task.pending)))


def work_seconds(task: WaitingTask) -> float:
    """Seconds × devices that are still to be done, over all pending items of an array."""
    items = sum(map(len, task.pending)) or 1
    return run_seconds(task) * items * devices(task)


def devices(task: WaitingTask) -> float:
    wanted = task.requirements
    if wanted.device_milli is not None:
        return wanted.device_milli / WHOLE_DEVICE_MILLI
    return wanted.device_count * task.nodes
