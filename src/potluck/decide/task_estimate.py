"""Estimates for a task that was not submitted: which nodes could take it, at what price, and when.

An estimate has no side effects: it never changes later plans.
"""

from math import ceil

from msgspec import Struct

from potluck.decide.account import SchedulerAccount
from potluck.decide.arrays.ranges import pending_items
from potluck.decide.charges import SettleTimes
from potluck.decide.explain.sentences import waiting_reason
from potluck.decide.explain.suggestions import suggest_changes
from potluck.decide.place_task import is_at_quota
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.pool.dry_run import DryRun, FittingNode, Market
from potluck.decide.pool.feasibility import Refusal
from potluck.decide.queue.task_groups import BlockReason, TaskGroups
from potluck.decide.reservations.duration_estimate import devices, run_seconds
from potluck.decide.reservations.forecast import Forecast, StartForecaster
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
        groups: TaskGroups,
        capacity: PoolCapacity,
        reservations: Reservations,
        forecaster: StartForecaster,
        settle_times: SettleTimes,
    ) -> None:
        self._groups = groups
        self._capacity = capacity
        self._reservations = reservations
        self._forecaster = forecaster
        self._settle_times = settle_times

    def estimate(self, task: WaitingTask, account: SchedulerAccount, now: float) -> Estimated:
        look = DryRun(self._capacity.pool, task)
        found = self._find(task, look, account, now)
        market, can_run = look.market(), _can_run(found, look)
        if found is BlockReason.CREDIT:
            look.refusals[Refusal.CREDIT] += len(look.free)
        return Estimated(
            sentence=self._sentence(found, look, market, can_run),
            starts_now=isinstance(found, FittingNode),
            can_run=can_run,
            nodes=len(self._capacity.pool),
            market=market,
            refusals=dict(look.refusals.most_common()),
            changes=[] if isinstance(found, FittingNode) else suggest_changes(task, look.kinds()),
            forecast=self._forecast(task, look, found, now),
            item_seconds=None if task.expected_seconds is None else run_seconds(task),
            whole_seconds=_whole_seconds(task, market, account),
        )

    def _find(
        self, task: WaitingTask, look: DryRun, account: SchedulerAccount, now: float
    ) -> FittingNode | BlockReason:
        """The result of the next round, if no other task arrived before it."""
        if (block_reason := self._block_reason_ahead(task)) is not None:
            return block_reason
        if is_at_quota(account):
            return BlockReason.QUOTA
        chances = look.chances(self._reservations.permission(look.task, now, look.on))
        if not chances:
            return BlockReason.KEPT if look.free else BlockReason.NO_CAPACITY
        cheapest = chances[0]
        seconds = self._settle_times.funded_seconds(task.limits.run_seconds)
        if cheapest.price_micro_per_hour > account.dearest_price(seconds):
            return BlockReason.CREDIT
        most = account.most_running_milli
        if most is None or account.running_milli + cheapest.milli <= most:
            return cheapest
        return BlockReason.TOO_LARGE if cheapest.milli > most else BlockReason.QUOTA

    def _block_reason_ahead(self, task: WaitingTask) -> BlockReason | None:
        """Why the task would wait behind a task of its group that is already blocked."""
        group = self._groups.group_of(task)
        entry = None if group is None else self._groups.first(group)
        if group is None or entry is None or group.block_reason is BlockReason.NONE:
            return None
        return group.block_reason if self._groups.goes_before(entry, task) else None

    def _sentence(
        self, found: FittingNode | BlockReason, look: DryRun, market: Market, can_run: bool
    ) -> str:
        if isinstance(found, FittingNode):
            return _is_free(market)
        nodes = len(self._capacity.pool)
        reason = waiting_reason(found, look.refusals, nodes).sentence
        if not nodes:
            return reason
        return f"{'It would wait' if can_run else 'As things are, it would never start'}: {reason}"

    def _forecast(
        self, task: WaitingTask, look: DryRun, found: FittingNode | BlockReason, now: float
    ) -> Forecast | None:
        if isinstance(found, FittingNode):
            return Forecast(now, _NOW)
        if found.is_of_account:
            return None
        place = (self._groups.shape_of(task), 1 + self._groups.ahead_in_shape(task))
        return self._forecaster.forecast(task, place, look.devices(_MOST_NODES), now)


def _can_run(found: FittingNode | BlockReason, look: DryRun) -> bool:
    """Unavailable devices count too: they come back at an unknown time."""
    if isinstance(found, FittingNode):
        return True
    takers = bool(look.suited) or look.refusals[Refusal.DEVICE_AWAY] > 0
    return takers and found is not BlockReason.TOO_LARGE


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
