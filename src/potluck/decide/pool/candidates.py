"""The nodes that fit a demand, and the best option of each.

A placement scores the first few in the fixed order of the nodes. Options are cached until the node
changes, and idle nodes of one profile are scored once.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from potluck.decide.placement.interface import Placement, PlacementChoice
from potluck.decide.pool.bitmap_index import WORD
from potluck.decide.pool.demand import Demand, Usable
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.decide.pool.node_index import NodeIndex
from potluck.decide.pool.permission import NodePermission
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AccountId

Accept = Callable[[NodeCapacity], bool]
_MOST_KNOWN = 1024


class NodeOption(Struct, frozen=True, gc=False):
    """The devices of a node for the tasks, with their score and price."""

    capacity: NodeCapacity
    version: int  # of the node when it was scored
    score: float
    price: int
    taken: tuple[Usable, ...]  # empty if the node does not fit
    is_doubted: bool  # the node


class Candidates:
    """For fractions, the candidates of one account, which may share devices with itself."""

    def __init__(self, demand: Demand, account_id: AccountId) -> None:
        self.demand = demand
        self._account_id = account_id
        self._epoch = -1
        self._known: dict[NodeCapacity, NodeOption] = {}
        self._unused: dict[NodeProfile, NodeOption] = {}
        # Of the nodes that may refuse: those that were checked, and those that refuse.
        self._stamp: object = None
        self._checked = 0
        self._refused = 0

    def has_capacity(self, pool: NodeIndex) -> bool:
        demand, account_id = self.demand, self._account_id
        nodes = pool.nodes(self._slots(pool))
        return any(len(demand.free(capacity, account_id)) >= demand.count for capacity in nodes)

    def could_fit(self, pool: NodeIndex) -> bool:
        return bool(self._slots(pool))

    def best(
        self,
        pool: NodeIndex,
        placement: Placement,
        accept: Accept | NodePermission | None,
        most_price: int | None,
    ) -> NodeOption | None:
        """The best of the first few: among about equal scores the cheapest, then the first. A
        doubted node only if no other fits now."""
        slots = self._slots(pool, accept)
        if not slots:
            return None
        if isinstance(accept, NodePermission):
            slots = self._permitted(slots, pool, accept)
            if not slots:
                return None
            accept = None
        if accept is None and most_price is None:
            found = self._first_few(slots, pool.by_slot, placement)
        else:
            nodes = self._accepted(pool.nodes(slots), accept)
            found = self._first_accepted(nodes, placement, most_price)
        if len(found) < 2:
            return found[0] if found else None
        return _cheapest_of_best(found, placement.tolerance)

    def best_of(
        self, nodes: Sequence[NodeCapacity], placement: Placement, most_price: int
    ) -> NodeOption | None:
        """The best of these nodes at no higher price; None if none of them fits."""
        fitting = filter(self.demand.is_reliable, nodes)
        found = self._first_accepted(fitting, placement, most_price)
        return _cheapest_of_best(found, placement.tolerance) if found else None

    def _permitted(self, slots: int, pool: NodeIndex, permission: NodePermission) -> int:
        """Checks only nodes that may refuse, each once until something has changed."""
        limited = slots & pool.slots_of(permission.limited)
        if not limited:
            return slots
        stamp = (permission.stamp, pool.layout)
        if self._stamp != stamp:
            self._stamp = stamp
            self._checked = self._refused = 0
        for capacity in pool.nodes(limited & ~self._checked):
            if not permission(capacity.node.id):
                self._refused |= 1 << capacity.slot
        self._checked |= limited
        return slots & ~self._refused

    def _slots(self, pool: NodeIndex, accept: Accept | NodePermission | None = None) -> int:
        """Slots of nodes that could fit. Nodes of one profile differ in acceptance and reliability:
        if these matter, none represents the others."""
        if accept is None and self.demand.min_reliability is None:
            return pool.could_serve(self.demand, self._account_id)
        return pool.every_that_could_serve(self.demand, self._account_id)

    def _accepted(
        self, nodes: Iterator[NodeCapacity], accept: Accept | None
    ) -> Iterator[NodeCapacity]:
        """In the fixed order; of idle nodes of one profile, the first accepted one."""
        met: set[NodeProfile] = set()
        if self.demand.min_reliability is not None:
            nodes = filter(self.demand.is_reliable, nodes)
        for capacity in nodes:
            if capacity.is_idle and capacity.profile in met:
                continue
            if accept is None or accept(capacity):
                if capacity.is_idle:
                    met.add(capacity.profile)
                yield capacity

    def _first_few(
        self, slots: int, by_slot: Sequence[NodeCapacity | None], placement: Placement
    ) -> list[NodeOption]:
        """Cached, except for nodes that have changed.

        By far the most frequent search, so it is written in one piece, without an iterator of
        nodes (see `words_of`).
        """
        self._renew(placement)
        known = self._known
        found: list[NodeOption] = []
        left = placement.looks_at  # of nodes that are not doubted
        met: set[NodeProfile] = set()  # of idle nodes, which are alike
        while slots:
            start = max(0, slots.bit_length() - WORD)
            word = slots >> start
            while word:
                place = word.bit_length() - 1
                word ^= 1 << place
                capacity = by_slot[start + place]
                assert capacity is not None
                if capacity.is_idle:
                    if capacity.profile in met:
                        continue
                    met.add(capacity.profile)
                offer = known.get(capacity)
                if offer is None or offer.version != capacity.version:
                    offer = known[capacity] = self._offer_anew(capacity, placement)
                if offer.taken:
                    found.append(offer)
                    if left is not None and not offer.is_doubted:
                        left -= 1
                        if not left:
                            return found
            slots &= (1 << start) - 1
        return found

    def _first_accepted(
        self, nodes: Iterator[NodeCapacity], placement: Placement, most_price: int | None
    ) -> list[NodeOption]:
        """With a price, which every account has its own of, nothing is cached."""
        self._renew(placement)
        known = self._known
        found: list[NodeOption] = []
        count = 0
        for capacity in nodes:
            if most_price is not None:
                offer = self._offer(capacity, placement, most_price)
            else:
                cached = known.get(capacity)
                if cached is None or cached.version != capacity.version:
                    cached = known[capacity] = self._offer_anew(capacity, placement)
                offer = cached
            if offer.taken:
                found.append(offer)
                count += not offer.is_doubted
                if count == placement.looks_at:
                    break
        return found

    def _renew(self, placement: Placement) -> None:
        """Scores of different epochs are not compared."""
        if self._epoch != placement.epoch or len(self._known) > _MOST_KNOWN:
            self._epoch = placement.epoch
            self._known.clear()
            self._unused.clear()

    def _offer_anew(self, capacity: NodeCapacity, placement: Placement) -> NodeOption:
        """Idle nodes of one profile have the same option."""
        if not capacity.is_idle:
            return self._offer(capacity, placement, None)
        like = self._unused.get(capacity.profile)
        if like is None:
            like = self._unused[capacity.profile] = self._offer(capacity, placement, None)
        return NodeOption(
            capacity, capacity.version, like.score, like.price, like.taken, like.is_doubted
        )

    def _offer(
        self, capacity: NodeCapacity, placement: Placement, most_price: int | None
    ) -> NodeOption:
        demand = self.demand
        free = demand.free(capacity, self._account_id)
        if len(free) < demand.count:
            return NodeOption(capacity, capacity.version, 0.0, 0, (), False)
        if len(free) == 1 and most_price is None:
            only = (free[0],)
            score = placement.score(PlacementChoice(demand, capacity, only))
            price, is_doubted = price_of(only), capacity.node.is_doubted
            return NodeOption(capacity, capacity.version, score, price, only, is_doubted)
        scored = [
            (placement.score(PlacementChoice(demand, capacity, taken)), price, taken)
            for taken in choices(demand, capacity, free)
            if (price := price_of(taken)) <= (price if most_price is None else most_price)
        ]
        score, price, taken = min(scored, key=_score_and_price, default=(0.0, 0, ()))
        is_doubted = capacity.node.is_doubted
        return NodeOption(capacity, capacity.version, score, price, taken, is_doubted)


def choices(demand: Demand, capacity: NodeCapacity, free: list[Usable]) -> list[tuple[Usable, ...]]:
    """The choices of devices: one device of each kind and load, or the cheapest `count`."""
    if demand.count > 1:
        free.sort(key=lambda each: (each.price, capacity.milli[each.position]))
        return [tuple(free[: demand.count])]
    different = {(capacity.milli[each.position], each.price, each.milli): each for each in free}
    return [(each,) for each in different.values()]


def price_of(taken: tuple[Usable, ...]) -> int:
    """The price of all of them for an hour."""
    if len(taken) == 1:
        return taken[0].price * taken[0].milli // WHOLE_DEVICE_MILLI
    return sum(each.price * each.milli for each in taken) // WHOLE_DEVICE_MILLI


def _cheapest_of_best(found: list[NodeOption], tolerance: float) -> NodeOption:
    """A doubted node only if all are."""
    trusted = [offer for offer in found if not offer.is_doubted] or found
    limit = min([offer.score for offer in trusted]) + tolerance
    best = None
    for offer in trusted:
        if offer.score <= limit and (best is None or offer.price < best.price):
            best = offer
    assert best is not None
    return best


def _score_and_price(choice: tuple[float, int, tuple[Usable, ...]]) -> tuple[float, int]:
    return choice[:2]
