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
from potluck.decide.pool.permitted_nodes import PermittedNodes
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

    def __init__(self, demand: Demand, account_id: AccountId, permitted: PermittedNodes) -> None:
        self.demand = demand
        self._account_id = account_id
        self._permitted = permitted  # of all candidates of the demand
        self._epoch = -1
        self._known: dict[NodeCapacity, NodeOption] = {}
        self._unused: dict[NodeProfile, NodeOption] = {}
        self._searched: tuple[int, int] = (-1, 0)  # a version of the pool, and what could fit then

    def has_capacity(self, pool: NodeIndex) -> bool:
        version, slots = self._searched
        if version != pool.version:
            slots = self._slots(pool)
        if not slots:
            return False
        demand, account_id = self.demand, self._account_id
        for capacity in pool.nodes(slots):
            if len(demand.free(capacity, account_id)) >= demand.count:
                return True
        return False

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
        if accept is not None:
            self._searched = (pool.version, slots)
        if not slots:
            return None
        # Otherwise only one idle node of each profile is listed.
        lists_alike_nodes = accept is not None or self.demand.min_reliability is not None
        if isinstance(accept, NodePermission):
            slots = self._permitted.among(slots, pool, accept)
            if not slots:
                return None
            accept = None
        if accept is None and most_price is None:
            found = self._first_fitting(slots, pool.by_slot, placement, lists_alike_nodes)
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

    def _first_fitting(
        self,
        slots: int,
        by_slot: Sequence[NodeCapacity | None],
        placement: Placement,
        lists_alike_nodes: bool,
    ) -> list[NodeOption]:
        """Options on the first nodes that fit, as many as the placement compares; of alike nodes
        only the first. Cached, except for nodes that have changed.

        By far the most frequent search, so it is written in one piece, without an iterator of
        nodes (see `words_of`).
        """
        self._renew(placement)
        known = self._known
        found: list[NodeOption] = []
        # Counts nodes that are not doubted. Without a limit it goes below zero, and all are taken.
        left = 0 if placement.looks_at is None else placement.looks_at
        met: set[NodeProfile] = set()  # of idle nodes, which are alike
        while slots:
            start = max(0, slots.bit_length() - WORD)
            word = slots >> start
            while word:
                place = word.bit_length() - 1
                word ^= 1 << place
                capacity = by_slot[start + place]
                assert capacity is not None
                if lists_alike_nodes and capacity.is_idle:
                    if capacity.profile in met:
                        continue
                    met.add(capacity.profile)
                offer = known.get(capacity)
                if offer is None or offer.version != capacity.version:
                    offer = known[capacity] = self._offer_anew(capacity, placement)
                if offer.taken:
                    found.append(offer)
                    if not offer.is_doubted:
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
        best: tuple[float, int] | None = None
        chosen: tuple[Usable, ...] = ()
        if len(free) >= demand.count:
            for taken in choices(demand, capacity, free):
                price = price_of(taken)
                if most_price is not None and price > most_price:
                    continue
                scored = (placement.score(PlacementChoice(demand, capacity, taken)), price)
                if best is None or scored < best:
                    best, chosen = scored, taken
        if best is None:
            return NodeOption(capacity, capacity.version, 0.0, 0, (), False)
        is_doubted = capacity.node.is_doubted
        return NodeOption(capacity, capacity.version, best[0], best[1], chosen, is_doubted)


def choices(demand: Demand, capacity: NodeCapacity, free: list[Usable]) -> list[tuple[Usable, ...]]:
    """The choices of devices: one device of each kind and load, or the cheapest `count`."""
    if len(free) == 1:
        return [(free[0],)]
    if demand.count > 1:
        free.sort(key=lambda each: (each.price, capacity.milli[each.position]))
        return [tuple(free[: demand.count])]
    milli = capacity.milli
    different: dict[tuple[int, int, int], Usable] = {}
    for each in free:
        different[milli[each.position], each.price, each.milli] = each
    return [(each,) for each in different.values()]


def price_of(taken: tuple[Usable, ...]) -> int:
    """The price of all of them for an hour."""
    if len(taken) == 1:
        only = taken[0]
        return only.price * only.milli // WHOLE_DEVICE_MILLI
    return sum(each.price * each.milli for each in taken) // WHOLE_DEVICE_MILLI


def _cheapest_of_best(found: list[NodeOption], tolerance: float) -> NodeOption:
    """A doubted node only if all are."""
    least: float | None = None
    for offer in found:
        if not offer.is_doubted and (least is None or offer.score < least):
            least = offer.score
    are_doubted = least is None
    limit = (min([offer.score for offer in found]) if least is None else least) + tolerance
    best = None
    for offer in found:
        if offer.score <= limit and offer.is_doubted is are_doubted:
            if not offer.price:
                return offer
            if best is None or offer.price < best.price:
                best = offer
    assert best is not None
    return best
