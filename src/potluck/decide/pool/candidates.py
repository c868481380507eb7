"""The rooms in which tasks that ask for the same could be, and what each has to offer.

A placement looks at the first few in the fixed order of the nodes. What a room had to offer is
remembered until the room changes; unused rooms that are alike are looked at once; and when nothing
would do, only what has gained something since is looked at the next time.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from potluck.decide.placement.interface import Choice, Placement
from potluck.decide.pool.index import NO_SLOTS
from potluck.decide.pool.room import Profile, Room
from potluck.decide.pool.rooms import Pool
from potluck.decide.pool.want import Usable, Want
from potluck.model.device import WHOLE_DEVICE_MILLI

Accept = Callable[[Room], bool]
_A_FEW = 48
_MUCH = 100
_FEW_MISSED = 4
_MOST_KNOWN = 4096


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
        self._offers: dict[int, Offer] = {}
        self._unused: dict[Profile, Offer] = {}
        self._none_at = 0  # what the pool had touched when nothing at all would do
        self._listed_at = -1
        self._rooms: list[Room] = []
        self._rest = NO_SLOTS

    def has_room(self, pool: Pool) -> bool:
        """Whether any room would do; not for wants that go by how reliable a node is."""
        want, rooms = self.want, self._hopeful(pool)
        while rooms or self._more(pool):
            if len(want.free(rooms[0])) >= want.count:
                return True
            del rooms[0]
        self._none_at = pool.last_touch
        return False

    def gained_much(self, pool: Pool) -> bool:
        """Whether so many rooms gained something since nothing would do that one of them may."""
        return pool.last_touch - self._none_at > _MUCH

    def best(
        self, pool: Pool, placement: Placement, accept: Accept | None, most_price: int | None
    ) -> Offer | None:
        """The best of the first few: of about equal ones the cheapest, then the first."""
        offers = self._first_few(_Look(pool, placement, accept, most_price))
        if not offers:
            return None
        limit = min([offer.score for offer in offers]) + placement.tolerance
        equal = [offer for offer in offers if offer.score <= limit]
        return equal[0] if len(equal) == 1 else min(equal, key=_price_and_place)

    def _hopeful(self, pool: Pool) -> list[Room]:
        """The first of the rooms that could do; until others are listed they only get fewer."""
        if self._listed_at != pool.last_listing:
            self._list_anew(pool)
        return self._rooms

    def _list_anew(self, pool: Pool) -> None:
        self._listed_at = pool.last_listing
        self._rest = pool.could_do(self.want, self._none_at)
        self._rooms.clear()
        self._more(pool)

    def _more(self, pool: Pool) -> bool:
        """Puts a few more rooms behind those that are known; False if there are none."""
        rooms: list[Room] = []
        while not rooms and self._rest.size:
            rooms = pool.still(self.want, self._rest[:_A_FEW])
            self._rest = self._rest[_A_FEW:]
        self._rooms += rooms
        return bool(rooms)

    def _first_few(self, look: _Look) -> list[Offer]:
        is_new = self._listed_at != look.pool.last_listing
        found, missed = self._walk(look, most_missed=None if is_new else _FEW_MISSED)
        if missed:
            # So many have gone since that the pool knows sooner which ones are left.
            self._list_anew(look.pool)
            found, _ = self._walk(look, most_missed=None)
        if not self._rooms and self.want.min_reliability is None:
            self._none_at = look.pool.last_touch
        return found

    def _walk(self, look: _Look, most_missed: int | None) -> tuple[list[Offer], bool]:
        """The first few that would do; True if too many that do not stood in the way."""
        rooms, known = self._hopeful(look.pool), self._offers if look.most_price is None else {}
        accept, epoch, most = look.accept, look.placement.epoch, look.placement.looks_at
        found: list[Offer] = []
        gone: list[Room] = []
        for room in self._in_order(look.pool):
            offer = known.get(room.place)
            if room.is_idle:
                offer = self._unused_offer(room, look)
            elif accept is not None and not accept(room):
                continue
            elif offer is None or offer.version != room.version or offer.epoch != epoch:
                offer = self._offer_anew(room, look)
            if offer is not None:
                found.append(offer)
                if len(found) == most:
                    break
                continue
            gone.append(room)
            if len(gone) == most_missed:
                return [], True
        if gone and accept is None and look.most_price is None:
            rooms[:] = [room for room in rooms if room not in gone]
        return found, False

    def _in_order(self, pool: Pool) -> Iterator[Room]:
        number = 0
        while number < len(self._rooms) or self._more(pool):
            yield self._rooms[number]
            number += 1

    def _offer_anew(self, room: Room, look: _Look) -> Offer | None:
        offer = self._offer(room, look.placement, look.most_price)
        if offer is not None and look.most_price is None:
            self._remember(offer)
        return offer

    def _remember(self, offer: Offer) -> None:
        if len(self._offers) >= _MOST_KNOWN:
            self._offers.clear()
        self._offers[offer.place] = offer

    def _unused_offer(self, first: Room, look: _Look) -> Offer | None:
        """Unused rooms of one profile are worth the same, so one of them is looked at for all."""
        room = _first_idle(look, first.profile, self.want)
        if room is None:
            return None
        if look.most_price is not None:
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


def _first_idle(look: _Look, profile: Profile, want: Want) -> Room | None:
    rooms, accept = look.pool.rooms, look.accept
    for place in reversed(profile.idle):
        room = rooms[-place]
        if (accept is None or accept(room)) and want.is_reliable(room):
            return room
    return None


def _price(taken: tuple[Usable, ...]) -> int:
    if len(taken) == 1:
        return taken[0].price * taken[0].milli // WHOLE_DEVICE_MILLI
    return sum(each.price * each.milli for each in taken) // WHOLE_DEVICE_MILLI


def _price_and_place(offer: Offer) -> tuple[int, int]:
    return offer.price, offer.place
