"""The rooms in which tasks that ask for the same could be, in the fixed order of the nodes.

A placement looks at the first few only, and those that turn out to have no room are not looked at
again until they gain some. Nodes on which nothing runs are not listed one by one: the first of each
profile stands for all. So a look costs about the same in a pool of a hundred nodes and of twenty
thousand.
"""

from bisect import insort
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from msgspec import Struct

from potluck.decide.feasible import Refusal
from potluck.decide.placement.interface import Choice, Placement
from potluck.decide.pool import Pool
from potluck.decide.room import Profile, Room
from potluck.decide.want import Usable, Want
from potluck.model.device import WHOLE_DEVICE_MILLI

Accept = Callable[[Room], bool]


class Offer(Struct, frozen=True, gc=False):
    """How a room would serve the tasks, and what the placement thinks of it."""

    place: int
    version: int
    epoch: int
    score: float
    price: int
    taken: tuple[Usable, ...]


class Candidates:
    def __init__(self, want: Want) -> None:
        self.want = want
        self._window: list[int] = []  # places that were looked at, the first first
        self._rest: list[int] = []  # a heap of those behind
        self._listed: set[int] = set()  # all in either
        self._offers: dict[int, Offer] = {}
        self._seen = 0  # what the pool had touched when it was asked the last time
        self._profiles: list[Profile] = []
        self._profiles_version = -1

    def best(
        self, pool: Pool, placement: Placement, accept: Accept | None, most_price: int | None
    ) -> Offer | None:
        """The best of the first few: of about equal ones the cheapest, then the first."""
        self._catch_up(pool)
        most = placement.looks_at
        offers = self._in_use(pool, placement, accept, most_price)
        offers += self._unused(pool, placement, accept, most_price)
        if not offers:
            return None
        if most is not None and len(offers) > most:
            offers.sort(key=_place)
            del offers[most:]
        limit = min(offer.score for offer in offers) + placement.tolerance
        equal = [offer for offer in offers if offer.score <= limit]
        return equal[0] if len(equal) == 1 else min(equal, key=_price_and_place)

    def _catch_up(self, pool: Pool) -> None:
        """Lists the rooms that were opened, or gained something, since the last time."""
        want = self.want
        for place, number in reversed(pool.touched.items()):
            if number <= self._seen:
                break
            if place in self._listed:
                continue
            room = pool.rooms[place]
            if (
                want.cores <= room.cores
                and want.memory_bytes <= room.memory_bytes
                and want.least_milli(room.profile) <= room.most_milli
            ):
                self._list(place)
        self._seen = pool.last_touch

    def _list(self, place: int) -> None:
        self._listed.add(place)
        if self._window and place < self._window[-1]:
            insort(self._window, place)
        else:
            heappush(self._rest, place)

    def _in_use(
        self, pool: Pool, placement: Placement, accept: Accept | None, most_price: int | None
    ) -> list[Offer]:
        found: list[Offer] = []
        gone: list[int] = []
        for place in self._places():
            room = pool.rooms.get(place)
            offer = None
            if room is not None and not room.is_idle:
                offer = self._offers.get(place)
                if offer is None or offer.version != room.version or offer.epoch != placement.epoch:
                    offer = self._look(room, placement, None)
            if room is None or offer is None:
                gone.append(place)
                continue
            self._offers[place] = offer
            if accept is not None and not accept(room):
                continue
            if most_price is not None and offer.price > most_price:
                offer = self._look(room, placement, most_price)
                if offer is None:
                    continue
            found.append(offer)
            if len(found) == placement.looks_at:
                break
        if gone:
            self._strike(gone)
        return found

    def _places(self) -> Iterator[int]:
        """In order; what is taken from the rest stays in the window."""
        yield from self._window
        while self._rest:
            place = heappop(self._rest)
            self._window.append(place)
            yield place

    def _strike(self, gone: list[int]) -> None:
        self._listed.difference_update(gone)
        self._window = [place for place in self._window if place in self._listed]
        for place in gone:
            self._offers.pop(place, None)

    def _unused(
        self, pool: Pool, placement: Placement, accept: Accept | None, most_price: int | None
    ) -> list[Offer]:
        if self._profiles_version != pool.profiles_version:
            self._profiles = [
                profile
                for profile in pool.profiles.values()
                if not isinstance(self.want.devices(profile), Refusal)
            ]
            self._profiles_version = pool.profiles_version
        found = []
        for profile in self._profiles:
            room = _first_idle(pool, profile, accept)
            offer = None if room is None else self._look(room, placement, most_price)
            if offer is not None:
                found.append(offer)
        return found

    def _look(self, room: Room, placement: Placement, most_price: int | None) -> Offer | None:
        """The best that the room has to offer."""
        want = self.want
        free = want.free(room)
        if len(free) < want.count:
            return None
        best: Offer | None = None
        for taken in _choices(want, room, free):
            price = sum(each.price * each.milli for each in taken) // WHOLE_DEVICE_MILLI
            if most_price is not None and price > most_price:
                continue
            score = placement.score(Choice(want, room, taken))
            if best is None or (score, price) < (best.score, best.price):
                best = Offer(room.place, room.version, placement.epoch, score, price, taken)
        return best


def _choices(want: Want, room: Room, free: list[Usable]) -> list[tuple[Usable, ...]]:
    """Which devices to take: one of each degree of use, or so many of the cheapest."""
    if want.count > 1:
        free.sort(key=lambda each: (each.price, room.milli[each.position]))
        return [tuple(free[: want.count])]
    if len(free) == 1:
        return [(free[0],)]
    different = {(room.milli[each.position], each.price, each.milli): each for each in free}
    return [(each,) for each in different.values()]


def _first_idle(pool: Pool, profile: Profile, accept: Accept | None) -> Room | None:
    for place in reversed(profile.idle):
        room = pool.rooms[-place]
        if accept is None or accept(room):
            return room
    return None


def _place(offer: Offer) -> int:
    return offer.place


def _price_and_place(offer: Offer) -> tuple[int, int]:
    return offer.price, offer.place
