"""How long tasks of a name take, learned from those that succeeded.

Who runs the same script again and again need not say how long it takes. Items of arrays are learned
apart from single tasks, which have a start and an end of their own. Where two of one name take
turns the slower one is expected: it is most of the mean. Memory is bounded: the names that were not
seen for longest are forgotten first.
"""

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
