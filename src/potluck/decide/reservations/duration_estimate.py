"""Estimates of how long a task takes, from declared and observed durations."""

from potluck.decide.arrays.ranges import GOOD_SECONDS
from potluck.decide.types import WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AccountId

# Of a moving average: the last few runs decide, and an outlier does not.
_NEWEST_WEIGHT = 0.3


class Durations:
    """Observed durations by account and task name."""

    def __init__(self, most_names: int = 10_000) -> None:
        self._most_names = most_names
        self._seconds: dict[tuple[AccountId, str, bool], float] = {}

    def see(
        self, account_id: AccountId, name: str, seconds: float, *, of_items: bool = False
    ) -> None:
        """Records the duration of a task, or of each item of an array."""
        key = (account_id, name, of_items)
        before = self._seconds.pop(key, seconds)  # moves to the end: evicted last
        self._seconds[key] = before + _NEWEST_WEIGHT * (seconds - before)
        if len(self._seconds) > self._most_names:
            del self._seconds[next(iter(self._seconds))]

    def expected_seconds(
        self, account_id: AccountId, name: str, *, of_items: bool = False
    ) -> float | None:
        """For items, falls back to single tasks of that name."""
        single = self._seconds.get((account_id, name, False))
        return self._seconds.get((account_id, name, True), single) if of_items else single


def run_seconds(task: WaitingTask) -> float:
    """The expected time of a single task or of one item; its limit if unknown."""
    limit = task.limits.run_seconds
    return limit if task.expected_seconds is None else min(task.expected_seconds, limit)


def attempt_seconds(task: WaitingTask) -> float:
    """The expected time of the next attempt; of an array, of the next range."""
    each = run_seconds(task)
    if not task.pending or task.expected_seconds is None:
        return each
    return min(each + GOOD_SECONDS, each * sum(map(len, task.pending)))


def work_seconds(task: WaitingTask) -> float:
    """Remaining seconds × devices, over all pending items of an array."""
    items = sum(map(len, task.pending)) or 1
    return run_seconds(task) * items * devices(task)


def devices(task: WaitingTask) -> float:
    requirements = task.requirements
    if requirements.device_milli is not None:
        return requirements.device_milli / WHOLE_DEVICE_MILLI
    return requirements.device_count * task.nodes
