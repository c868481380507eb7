"""What a task would meet that nobody has submitted: who could take it, for how much, and when.

Asking takes nothing, promises nothing and learns nothing: what is planned afterwards is what would
have been planned anyway.
"""

from msgspec import Struct

from potluck.decide.account import Account
from potluck.decide.ahead.foresee import Forecast, Foresight
from potluck.decide.explain.changes import changes
from potluck.decide.explain.sentences import waiting_reason
from potluck.decide.finder import Finder
from potluck.decide.pool.capacity import Capacity
from potluck.decide.pool.feasible import Refusal
from potluck.decide.pool.room import Profile
from potluck.decide.pool.suitable import Suitability
from potluck.decide.pool.want import Usable
from potluck.decide.queue.halt import Halt
from potluck.decide.queue.lines import Lines
from potluck.decide.settle import hold_micro
from potluck.decide.snapshot import Assignment, WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI

_NOW = "there is room for it now"


class Market(Struct, frozen=True):
    """What of the pool would do for a task, and what an hour of it costs, node by node."""

    nodes: int
    devices: int
    free_devices: int
    cheapest_micro_per_hour: int | None
    dearest_micro_per_hour: int | None


class Estimated(Struct, frozen=True):
    sentence: str
    can_run: bool  # some node that is here takes such tasks, be it later
    nodes: int  # that were looked at
    market: Market
    hold_micro: int | None  # of its first attempt; None where nobody could say a price
    refusals: dict[Refusal, int]
    changes: list[str]
    forecast: Forecast | None


class Estimator:
    def __init__(
        self,
        lines: Lines,
        pool: tuple[Capacity, Suitability],
        finder: Finder,
        foresight: Foresight,
    ) -> None:
        self._lines = lines
        self._capacity, self._suitability = pool
        self._finder = finder
        self._foresight = foresight

    def estimate(self, task: WaitingTask, account: Account, now: float) -> Estimated:
        """For a task that stands in no line."""
        market = self._market(task)
        found = self._finder.preview(task, account, now)
        if isinstance(found, Assignment):
            return self._at_once(market, found, now)
        return self._later(task, market, found, now)

    def _at_once(self, market: Market, found: Assignment, now: float) -> Estimated:
        return Estimated(
            sentence=_is_free(market),
            can_run=True,
            nodes=self._suitability.node_count,
            market=market,
            hold_micro=found.hold_micro,
            refusals={},
            changes=[],
            forecast=Forecast(now, _NOW),
        )

    def _later(self, task: WaitingTask, market: Market, halt: Halt, now: float) -> Estimated:
        nodes = self._suitability.node_count
        refusals = self._capacity.refusals(task)
        if halt is Halt.CREDIT and (dear := nodes - refusals.total()) > 0:
            refusals[Refusal.CREDIT] = dear
        can_run = bool(market.nodes) and halt is not Halt.TOO_LARGE
        cheapest = market.cheapest_micro_per_hour
        reason = waiting_reason(halt, refusals, nodes).sentence
        return Estimated(
            sentence=f"{_begin(nodes, can_run)}{reason}",
            can_run=can_run,
            nodes=nodes,
            market=market,
            hold_micro=None if cheapest is None else hold_micro(cheapest, task.limits.run_seconds),
            refusals=dict(refusals.most_common()),
            changes=changes(task, self._suitability.kinds()),
            forecast=None if halt.is_of_account else self._forecast(task, now),
        )

    def _forecast(self, task: WaitingTask, now: float) -> Forecast | None:
        place = (self._lines.shape_of(task), 1 + self._lines.ahead_in_shape(task))
        return self._foresight.forecast(task, place, self._suitability.devices(task), now)

    def _market(self, task: WaitingTask) -> Market:
        """Every node that would do is counted; what its devices cost is worked out once a kind."""
        want, pool = self._capacity.want_of(task), self._capacity.pool
        nodes = devices = free = 0
        prices: dict[Profile, int] = {}
        for room in pool.rooms(pool.suited(want)):
            usable = want.devices(room.profile)
            if isinstance(usable, Refusal) or not want.is_reliable(room):
                continue
            nodes += 1
            devices += len(usable)
            free += want.free_count(room, task.account_id)
            if room.profile not in prices:
                prices[room.profile] = _price(usable, want.count)
        cheapest, dearest = min(prices.values(), default=None), max(prices.values(), default=None)
        return Market(nodes, devices, free, cheapest, dearest)


def _price(usable: tuple[Usable, ...], count: int) -> int:
    """Of an hour on such a node, with the cheapest of its devices that would do."""
    each = sorted(device.price * device.milli for device in usable)
    return sum(each[:count]) // WHOLE_DEVICE_MILLI


def _is_free(market: Market) -> str:
    if market.devices == 1:
        return "It would start now: the one device that suits it is free."
    are = "is" if market.free_devices == 1 else "are"
    return (
        f"It would start now: of {market.devices:,} devices that suit it"
        f" {market.free_devices:,} {are} free."
    )


def _begin(nodes: int, can_run: bool) -> str:
    if not nodes:
        return ""
    return "It would wait. " if can_run else "As things are, it would never start. "
