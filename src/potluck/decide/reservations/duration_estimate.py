"""How long a task will probably take, and how much of the pool."""

from potluck.decide.arrays.ranges import GOOD_SECONDS
from potluck.decide.types import WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AccountId

# How much the newest one counts: the last handful decide, and one odd run does not.
_NEWEST_WEIGHT = 0.3


class Durations:
    def __init__(self, most_names: int = 10_000) -> None:
        self._most_names = most_names
        self._seconds: dict[tuple[AccountId, str, bool], float] = {}

    def see(
        self, account_id: AccountId, name: str, seconds: float, *, of_items: bool = False
    ) -> None:
        """What one took; of an array, each of its items."""
        key = (account_id, name, of_items)
        before = self._seconds.pop(key, seconds)  # goes in again at the end: the newest
        self._seconds[key] = before + _NEWEST_WEIGHT * (seconds - before)
        if len(self._seconds) > self._most_names:
            del self._seconds[next(iter(self._seconds))]

    def expected_seconds(
        self, account_id: AccountId, name: str, *, of_items: bool = False
    ) -> float | None:
        """Of items also by single tasks, where no array of that name was seen."""
        single = self._seconds.get((account_id, name, False))
        return self._seconds.get((account_id, name, True), single) if of_items else single


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
