"""Estimates for a task that was not submitted: which nodes could take it, at what price, and when.

An estimate has no side effects: it never changes later plans.
"""

from math import ceil

from msgspec import Struct

from potluck.decide.account import SchedulerAccount
from potluck.decide.arrays.ranges import pending_items
from potluck.decide.explain.sentences import waiting_reason
from potluck.decide.explain.suggestions import changes
from potluck.decide.place_task import is_at_quota
from potluck.decide.pool.capacity import Capacity
from potluck.decide.pool.dry_run import Chance, Market, PoolLook
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.queue.task_groups import Halt, Lines
from potluck.decide.reservations.duration_estimate import devices, run_seconds
from potluck.decide.reservations.forecast import Forecast, Foresight
from potluck.decide.reservations.reserve import Reservations
from potluck.decide.types import WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI

_NOW = "there is free capacity for it now"
# Nodes that are searched for the earliest start.
_MOST_NODES = 1000


class Estimated(Struct, frozen=True):
    sentence: str
    starts_now: bool
    can_run: bool  # some known node takes such tasks, now or later
    nodes: int  # that were checked
    market: Market
    refusals: dict[Refusal, int]
    changes: list[str]
    forecast: Forecast | None
    item_seconds: float | None  # or of the single run; None if unknown
    whole_seconds: float | None  # of an array, from its start; None if unknown


class Estimator:
    def __init__(
        self,
        lines: Lines,
        capacity: Capacity,
        reservations: Reservations,
        foresight: Foresight,
    ) -> None:
        self._lines = lines
        self._capacity = capacity
        self._reservations = reservations
        self._foresight = foresight

    def estimate(self, task: WaitingTask, account: SchedulerAccount, now: float) -> Estimated:
        look = PoolLook(self._capacity.pool, task)
        found = self._find(task, look, account, now)
        market, can_run = look.market(), _can_run(found, look)
        if found is Halt.CREDIT:
            look.refusals[Refusal.CREDIT] += len(look.free)
        return Estimated(
            sentence=self._sentence(found, look, market, can_run),
            starts_now=isinstance(found, Chance),
            can_run=can_run,
            nodes=len(self._capacity.pool),
            market=market,
            refusals=dict(look.refusals.most_common()),
            changes=[] if isinstance(found, Chance) else changes(task, look.kinds()),
            forecast=self._forecast(task, look, found, now),
            item_seconds=None if task.expected_seconds is None else run_seconds(task),
            whole_seconds=_whole_seconds(task, market, account),
        )

    def _find(
        self, task: WaitingTask, look: PoolLook, account: SchedulerAccount, now: float
    ) -> Chance | Halt:
        """The result of the next round, if no other task arrived before it."""
        if (halt := self._halt_ahead(task)) is not None:
            return halt
        if is_at_quota(account):
            return Halt.QUOTA
        chances = look.chances(self._reservations.permission(look.task, now, look.on))
        if not chances:
            return Halt.KEPT if look.free else Halt.ROOM
        cheapest = chances[0]
        if cheapest.price_micro_per_hour > account.dearest_price(task.limits.run_seconds):
            return Halt.CREDIT
        most = account.most_running_milli
        if most is None or account.running_milli + cheapest.milli <= most:
            return cheapest
        return Halt.TOO_LARGE if cheapest.milli > most else Halt.QUOTA

    def _halt_ahead(self, task: WaitingTask) -> Halt | None:
        """Why the task would wait behind a task of its group that is already blocked."""
        line = self._lines.line_of(task)
        entry = None if line is None else self._lines.first(line)
        if line is None or entry is None or line.halt is Halt.NONE:
            return None
        return line.halt if self._lines.goes_before(entry, task) else None

    def _sentence(self, found: Chance | Halt, look: PoolLook, market: Market, can_run: bool) -> str:
        if isinstance(found, Chance):
            return _is_free(market)
        nodes = len(self._capacity.pool)
        reason = waiting_reason(found, look.refusals, nodes).sentence
        if not nodes:
            return reason
        return f"{'It would wait' if can_run else 'As things are, it would never start'}: {reason}"

    def _forecast(
        self, task: WaitingTask, look: PoolLook, found: Chance | Halt, now: float
    ) -> Forecast | None:
        if isinstance(found, Chance):
            return Forecast(now, _NOW)
        if found.is_of_account:
            return None
        place = (self._lines.shape_of(task), 1 + self._lines.ahead_in_shape(task))
        return self._foresight.forecast(task, place, look.devices(_MOST_NODES), now)


def _can_run(found: Chance | Halt, look: PoolLook) -> bool:
    """Unavailable devices count too: they come back at an unknown time."""
    if isinstance(found, Chance):
        return True
    takers = bool(look.suited) or look.refusals[Refusal.DEVICE_AWAY] > 0
    return takers and found is not Halt.TOO_LARGE


def _whole_seconds(task: WaitingTask, market: Market, account: SchedulerAccount) -> float | None:
    """If all suitable devices worked on it, within the account's quota."""
    if not task.pending or task.expected_seconds is None or not market.slots:
        return None
    items, slots = pending_items(task), market.slots
    most = account.most_running_milli
    if most is not None:
        slots = max(1, min(slots, int(most / (devices(task) * WHOLE_DEVICE_MILLI))))
    return ceil(items / min(items, slots)) * run_seconds(task)


def _is_free(market: Market) -> str:
    if market.devices == 1:
        return "It would start now: the only suitable device is free."
    are = "is" if market.free_devices == 1 else "are"
    return (
        f"It would start now: {market.free_devices:,} of {market.devices:,} suitable devices"
        f" {are} free."
    )
