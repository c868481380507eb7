"""How much one request with reports does; the node sends the rest again.

All requests share the event loop, and a node may send a thousand reports in one request, each of
which could need a transaction of its own.
"""

from collections.abc import Iterator, Sequence

from potluck.model.ids import AttemptId
from potluck.wire.provider import Finished, ItemsDone, Report

# With shared transactions; a report and an outcome of an item are one each.
MOST_TOGETHER = 250
# Reports with a transaction of their own.
MOST_ALONE = 20
# All rows of a batch stay locked until it commits.
_BATCH = 100
# A part of an array is written before the next one is decided.
_WORK_OF_PART = 10


class RequestWork:
    """What may still be done. Something is always taken, so that repeating makes progress."""

    def __init__(self, items: Sequence[Report]) -> None:
        self._items = items
        self._together = MOST_TOGETHER
        self._alone = MOST_ALONE

    @property
    def is_used_up(self) -> bool:
        """From then on nothing is taken, so that the order of an attempt's reports is kept."""
        return self._alone <= 0

    def choose_batch(self, places: Sequence[int]) -> list[int]:
        """The first of these reports, as many as are taken with shared transactions."""
        chosen: list[int] = []
        for place in places:
            if self._together <= 0:
                break
            self._together -= _work_of(self._items[place])
            chosen.append(place)
        return chosen

    def is_taken_alone(self, place: int) -> bool:
        if self.is_used_up:
            return False
        self._alone -= 1 + _work_of(self._items[place]) * MOST_ALONE // MOST_TOGETHER
        return True


def _work_of(item: Report) -> int:
    if not isinstance(item, ItemsDone):
        return 1
    return _WORK_OF_PART + len(item.outcomes) + len(item.returned)


def split_batches(reports: Sequence[Report]) -> Iterator[list[int]]:
    """Indexes of reports that are taken together: starts and ends of any attempts, or outcomes of
    items, each attempt once. The order per attempt is kept."""
    waiting = list(range(len(reports)))
    while waiting:
        is_of_items = isinstance(reports[waiting[0]], ItemsDone)
        complete = set[AttemptId]()
        batch: list[int] = []
        later: list[int] = []
        for place in waiting:
            report, attempt_id = reports[place], reports[place].lease.attempt_id
            is_alike = isinstance(report, ItemsDone) is is_of_items
            fits = is_alike and len(batch) < _BATCH and attempt_id not in complete
            (batch if fits else later).append(place)
            if not fits or isinstance(report, ItemsDone | Finished):
                complete.add(attempt_id)
        yield batch
        waiting = later
