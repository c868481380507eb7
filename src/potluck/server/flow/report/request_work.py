"""How much one request with reports does; the node sends the rest again.

All requests share the event loop, and a node may send a thousand reports in one request, each of
which could need a transaction of its own.
"""

from collections.abc import Sequence

from potluck.wire.provider import ItemsDone, Report

# With shared transactions; a report and an outcome of an item are one each.
MOST_TOGETHER = 250
# Reports with a transaction of their own.
MOST_ALONE = 20
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

    def choose_together(self, places: Sequence[int]) -> list[int]:
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
