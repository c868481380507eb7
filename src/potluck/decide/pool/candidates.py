"""The nodes that fit a demand, and the best option of each.

A placement scores the first few in the fixed order of the nodes. Options are cached until the node
changes, and idle nodes of one profile are scored once.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from potluck.decide.placement.interface import Placement, PlacementChoice
from potluck.decide.pool.demand import Usable, Want
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.decide.pool.node_index import Pool
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AccountId

Accept = Callable[[NodeCapacity], bool]
_MOST_KNOWN = 1024


class NodeOption(Struct, frozen=True, gc=False):
    """The devices of a node for the tasks, with their score and price."""

    room: NodeCapacity
    version: int  # of the node when it was scored
    score: float
    price: int
    taken: tuple[Usable, ...]  # empty if the node does not fit


class Candidates:
    """For fractions, the candidates of one account, which may share devices with itself."""

    def __init__(self, want: Want, account_id: AccountId) -> None:
        self.want = want
        self._account_id = account_id
        self._epoch = -1
        self._known: dict[NodeCapacity, NodeOption] = {}
        self._unused: dict[NodeProfile, NodeOption] = {}

    def has_room(self, pool: Pool) -> bool:
        want, account_id = self.want, self._account_id
        rooms = pool.rooms(self._slots(pool))
        return any(len(want.free(room, account_id)) >= want.count for room in rooms)

    def could_have_room(self, pool: Pool) -> bool:
        return bool(self._slots(pool))

    def best(
        self, pool: Pool, placement: Placement, accept: Accept | None, most_price: int | None
    ) -> NodeOption | None:
        """The best of the first few: among about equal scores the cheapest, then the first."""
        rooms = self._rooms(pool, accept)
        if rooms is None:
            return None
        if most_price is None:
            found = self._first_few(rooms, placement)
        else:
            found = self._affordable(rooms, placement, most_price)
        if len(found) < 2:
            return found[0] if found else None
        limit = min([offer.score for offer in found]) + placement.tolerance
        equal = [offer for offer in found if offer.score <= limit]
        return equal[0] if len(equal) == 1 else min(equal, key=_price)

    def _rooms(self, pool: Pool, accept: Accept | None) -> Iterator[NodeCapacity] | None:
        """In the fixed order; of idle nodes of one profile, the first accepted one."""
        slots = self._slots(pool, accept)
        if not slots:
            return None
        rooms = pool.rooms(slots)
        if self.want.min_reliability is not None:
            return _accepted(filter(self.want.is_reliable, rooms), accept)
        return rooms if accept is None else _accepted(rooms, accept)

    def _slots(self, pool: Pool, accept: Accept | None = None) -> int:
        """Slots of nodes that could fit. Nodes of one profile differ in acceptance and reliability:
        if these matter, none represents the others."""
        if accept is None and self.want.min_reliability is None:
            return pool.could_do(self.want, self._account_id)
        return pool.every_that_could_do(self.want, self._account_id)

    def _first_few(self, rooms: Iterator[NodeCapacity], placement: Placement) -> list[NodeOption]:
        """Cached, except for nodes that have changed."""
        if self._epoch != placement.epoch or len(self._known) > _MOST_KNOWN:
            self._epoch = placement.epoch
            self._known.clear()
            self._unused.clear()
        known, most = self._known, placement.looks_at
        found: list[NodeOption] = []
        for room in rooms:
            offer = known.get(room)
            if offer is None or offer.version != room.version:
                offer = known[room] = self._offer_anew(room, placement)
            if offer.taken:
                found.append(offer)
                if len(found) == most:
                    break
        return found

    def _affordable(
        self, rooms: Iterator[NodeCapacity], placement: Placement, most_price: int
    ) -> list[NodeOption]:
        offers = (self._offer(room, placement, most_price) for room in rooms)
        return list(islice((offer for offer in offers if offer.taken), placement.looks_at))

    def _offer_anew(self, room: NodeCapacity, placement: Placement) -> NodeOption:
        """Idle nodes of one profile have the same option."""
        if not room.is_idle:
            return self._offer(room, placement, None)
        like = self._unused.get(room.profile)
        if like is None:
            like = self._unused[room.profile] = self._offer(room, placement, None)
        return NodeOption(room, room.version, like.score, like.price, like.taken)

    def _offer(
        self, room: NodeCapacity, placement: Placement, most_price: int | None
    ) -> NodeOption:
        want = self.want
        free = want.free(room, self._account_id)
        if len(free) < want.count:
            return NodeOption(room, room.version, 0.0, 0, ())
        if len(free) == 1 and most_price is None:
            only = (free[0],)
            score = placement.score(PlacementChoice(want, room, only))
            return NodeOption(room, room.version, score, price_of(only), only)
        scored = [
            (placement.score(PlacementChoice(want, room, taken)), price, taken)
            for taken in choices(want, room, free)
            if (price := price_of(taken)) <= (price if most_price is None else most_price)
        ]
        score, price, taken = min(scored, key=_score_and_price, default=(0.0, 0, ()))
        return NodeOption(room, room.version, score, price, taken)


def _accepted(rooms: Iterator[NodeCapacity], accept: Accept | None) -> Iterator[NodeCapacity]:
    met: set[NodeProfile] = set()
    for room in rooms:
        if room.is_idle and room.profile in met:
            continue
        if accept is None or accept(room):
            if room.is_idle:
                met.add(room.profile)
            yield room


def choices(want: Want, room: NodeCapacity, free: list[Usable]) -> list[tuple[Usable, ...]]:
    """The choices of devices: one device of each kind and load, or the cheapest `count`."""
    if want.count > 1:
        free.sort(key=lambda each: (each.price, room.milli[each.position]))
        return [tuple(free[: want.count])]
    different = {(room.milli[each.position], each.price, each.milli): each for each in free}
    return [(each,) for each in different.values()]


def price_of(taken: tuple[Usable, ...]) -> int:
    """The price of all of them for an hour."""
    if len(taken) == 1:
        return taken[0].price * taken[0].milli // WHOLE_DEVICE_MILLI
    return sum(each.price * each.milli for each in taken) // WHOLE_DEVICE_MILLI


def _price(offer: NodeOption) -> int:
    return offer.price


def _score_and_price(choice: tuple[float, int, tuple[Usable, ...]]) -> tuple[float, int]:
    return choice[:2]
