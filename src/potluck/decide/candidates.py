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


class _Look(Struct, gc=False):
    """What is looked for this time."""

    pool: Pool
    placement: Placement
    accept: Accept | None
    most_price: int | None


class Candidates:
    def __init__(self, want: Want) -> None:
        self.want = want
        self._window: list[int] = []  # places that were looked at, the first first
        self._rest: list[int] = []  # a heap of those behind
        self._listed: set[int] = set()  # all in either
        self._offers: dict[int, Offer] = {}
        self._unused: dict[Profile, Offer] = {}
        self._seen = 0  # what the pool had touched when it was asked the last time
        self._profiles: list[Profile] = []
        self._profiles_version = -1

    def best(
        self, pool: Pool, placement: Placement, accept: Accept | None, most_price: int | None
    ) -> Offer | None:
        """The best of the first few: of about equal ones the cheapest, then the first."""
        self._catch_up(pool)
        look = _Look(pool, placement, accept, most_price)
        offers = self._in_use(look)
        offers = self._with_unused(look, offers)
        if not offers:
            return None
        limit = min([offer.score for offer in offers]) + placement.tolerance
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
                and want.least_gpu_milli(room.profile) <= room.most_gpu_milli
            ):
                self._list(place)
        self._seen = pool.last_touch

    def _list(self, place: int) -> None:
        self._listed.add(place)
        if self._window and place < self._window[-1]:
            insort(self._window, place)
        else:
            heappush(self._rest, place)

    def _in_use(self, look: "_Look") -> list[Offer]:
        rooms, epoch, most = look.pool.rooms, look.placement.epoch, look.placement.looks_at
        known, accept = self._offers, look.accept
        found: list[Offer] = []
        gone: list[int] = []
        for place in self._places():
            room = rooms.get(place)
            offer = known.get(place)
            if room is None or room.is_idle:
                offer = None
            elif offer is None or offer.version != room.version or offer.epoch != epoch:
                offer = self._offer(room, look.placement, None)
            if room is None or offer is None:
                gone.append(place)
                continue
            known[place] = offer
            if accept is not None and not accept(room):
                continue
            if look.most_price is not None and offer.price > look.most_price:
                offer = self._offer(room, look.placement, look.most_price)
                if offer is None:
                    continue
            found.append(offer)
            if len(found) == most:
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

    def _with_unused(self, look: "_Look", offers: list[Offer]) -> list[Offer]:
        """Adds the first unused room of each profile, and leaves the first few of all."""
        most = look.placement.looks_at
        is_full = most is not None and len(offers) == most
        last = offers[-1].place if is_full else None
        for profile in self._suited(look.pool):
            room = _first_idle(look, profile)
            if room is None or (last is not None and room.place > last):
                continue
            offer = self._unused_offer(room, look)
            if offer is not None:
                offers.append(offer)
        if most is not None and len(offers) > most:
            offers.sort(key=_place)
            del offers[most:]
        return offers

    def _suited(self, pool: Pool) -> list[Profile]:
        if self._profiles_version != pool.profiles_version:
            self._profiles_version = pool.profiles_version
            self._profiles = [
                profile
                for profile in pool.profiles.values()
                if not isinstance(self.want.devices(profile), Refusal)
            ]
        return self._profiles

    def _unused_offer(self, room: Room, look: "_Look") -> Offer | None:
        """Unused rooms of one profile are worth the same, so one of them is looked at for all."""
        if look.most_price is not None or self.want.min_reliability is not None:
            return self._offer(room, look.placement, look.most_price)
        known = self._unused.get(room.profile)
        if known is None or known.epoch != look.placement.epoch:
            known = self._offer(room, look.placement, None)
            if known is None:
                return None
            self._unused[room.profile] = known
        return Offer(room.place, room.version, known.epoch, known.score, known.price, known.taken)

    def _offer(self, room: Room, placement: Placement, most_price: int | None) -> Offer | None:
        """The best that the room has to offer."""
        want = self.want
        free = want.free(room)
        if len(free) < want.count:
            return None
        best: Offer | None = None
        for taken in _choices(want, room, free):
            price = _price(taken)
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


def _first_idle(look: "_Look", profile: Profile) -> Room | None:
    rooms, accept = look.pool.rooms, look.accept
    for place in reversed(profile.idle):
        room = rooms[-place]
        if accept is None or accept(room):
            return room
    return None


def _price(taken: tuple[Usable, ...]) -> int:
    if len(taken) == 1:
        return taken[0].price * taken[0].milli // WHOLE_DEVICE_MILLI
    return sum(each.price * each.milli for each in taken) // WHOLE_DEVICE_MILLI


def _place(offer: Offer) -> int:
    return offer.place


def _price_and_place(offer: Offer) -> tuple[int, int]:
    return offer.price, offer.place
