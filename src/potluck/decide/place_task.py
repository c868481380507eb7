"""Places one task: chooses its node, devices and price, and the items of an array."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.account import SchedulerAccount
from potluck.decide.arrays.node_speed import NodeSpeeds
from potluck.decide.arrays.ranges import affordable_items, next_range, remove_range
from potluck.decide.charges import SettleTimes, hold_micro
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.pool.feasibility import Fit
from potluck.decide.queue.task_groups import BlockReason
from potluck.decide.reservations.duration_estimate import attempt_seconds, run_seconds
from potluck.decide.reservations.reserve import Reservations
from potluck.decide.reservations.timetable import Timetable
from potluck.decide.types import Assignment, WaitingTask
from potluck.model.ids import NodeId
from potluck.model.task import ItemRange

MayUse = Callable[[NodeId], bool]


class TaskPlacement(Struct, frozen=True, gc=False):
    assignments: list[Assignment]
    left: WaitingTask | None  # an array that has more pending items


class TaskPlacer:
    """Finds placements, and takes them out of the capacity immediately."""

    def __init__(
        self,
        capacity: PoolCapacity,
        reservations: Reservations,
        timetable: Timetable,
        speeds: NodeSpeeds,
        aligns: bool,
        settle_times: SettleTimes,
    ) -> None:
        self._capacity = capacity
        self._reservations = reservations
        self._timetable = timetable
        self._speeds = speeds
        self._aligns = aligns  # whether tasks that end together are put on the same node
        self._settle_times = settle_times

    def find(
        self, task: WaitingTask, account: SchedulerAccount, now: float
    ) -> TaskPlacement | BlockReason:
        most = account.most_running_milli
        if most is not None and account.running_milli >= most:
            return BlockReason.QUOTA
        may_use = self._may_use(task, now)
        first = self._aligned(task, may_use, now) if self._aligns else None
        found = self._place(task, account, may_use, first)
        if (
            found is BlockReason.NO_CAPACITY
            and may_use is not None
            and self._capacity.has_capacity(task)
        ):
            permits = self._reservations.permission(task, now) if task.pending else None
            is_slow = task.pending and self._capacity.find(task, None, permits) is not None
            return BlockReason.SLOW if is_slow else BlockReason.KEPT
        return found

    def find_on(
        self, task: WaitingTask, account: SchedulerAccount, node_ids: tuple[NodeId, ...]
    ) -> TaskPlacement | BlockReason:
        """On these nodes, which are reserved for it."""
        if is_at_quota(account):
            return BlockReason.QUOTA
        return self._place(task, account, node_ids.__contains__, None)

    def _may_use(self, task: WaitingTask, now: float) -> MayUse | None:
        """The nodes that are neither reserved for others nor unfit for the rest of an array."""
        permits = self._reservations.permission(task, now)
        unfit = self._speeds.unfit(task) if task.pending else None
        if not unfit:
            return permits
        return lambda node_id: node_id not in unfit and (permits is None or permits(node_id))

    def _aligned(self, task: WaitingTask, may_use: MayUse | None, now: float) -> MayUse:
        """Nodes on which another task runs at least as long.

        So whole nodes become free for large tasks, and no small task is left behind.
        """
        end = now + attempt_seconds(task)
        last_end = self._timetable.last_end
        if may_use is None:
            return lambda node_id: last_end(node_id) >= end
        return lambda node_id: last_end(node_id) >= end and may_use(node_id)

    def _place(
        self,
        task: WaitingTask,
        account: SchedulerAccount,
        may_use: MayUse | None,
        first: MayUse | None,
    ) -> TaskPlacement | BlockReason:
        outcome = self._one(task, account, may_use, first)
        if task.nodes == 1 and isinstance(outcome, Fit):
            return self._assignments(task, account, [self._capacity.take(task, outcome)])
        fits: list[Fit] = []
        while isinstance(outcome, Fit) and len(fits) < task.nodes - 1:
            fits.append(self._capacity.take(task, outcome))
            taken = {fit.node_id for fit in fits}
            outcome = self._one(task, account, _except(taken, may_use), _except(taken, first))
        if isinstance(outcome, Fit):
            return self._assignments(task, account, [*fits, self._capacity.take(task, outcome)])
        for fit in fits:
            self._capacity.untake(task, fit)
        return outcome

    def _one(
        self,
        task: WaitingTask,
        account: SchedulerAccount,
        may_use: MayUse | None,
        first: MayUse | None,
    ) -> Fit | BlockReason:
        fit = None if first is None else self._capacity.find(task, None, first)
        fit = fit or self._capacity.find(task, None, may_use)
        if fit is None:
            return BlockReason.NO_CAPACITY
        if task.requirements.volumes:
            fit = self._capacity.find_holder(task, fit, may_use)
        if fit.price_micro_per_hour:
            fit = self._without_own_price(task, fit)
        if price := fit.price_micro_per_hour:
            seconds = self._settle_times.funded_seconds(task.limits.run_seconds)
            if hold_micro(price, seconds) > account.available_micro:
                fit = self._capacity.find(task, account.dearest_price(seconds), may_use)
            if fit is None:
                return BlockReason.CREDIT
        most = account.most_running_milli
        if most is None:
            return fit
        milli = task.nodes * sum(share.milli for share in fit.shares)
        if account.running_milli + milli <= most:
            return fit
        return BlockReason.TOO_LARGE if milli > most else BlockReason.QUOTA

    def _without_own_price(self, task: WaitingTask, fit: Fit) -> Fit:
        """A task for its own account's devices only costs nothing: it would pay itself."""
        is_own = len(task.requirements.owners) == 1
        if not is_own or self._capacity.owner_of(fit.node_id) != task.account_id:
            return fit
        return replace(fit, price_micro_per_hour=0)

    def _assignments(
        self, task: WaitingTask, account: SchedulerAccount, fits: list[Fit]
    ) -> TaskPlacement:
        if not task.pending:
            if len(fits) == 1:
                return TaskPlacement([self._assignment(task, fits[0])], None)
            return TaskPlacement([self._assignment(task, fit) for fit in fits], None)
        fit = fits[0]
        seconds = self._settle_times.funded_seconds(task.limits.run_seconds)
        most = affordable_items(account.available_micro, fit.price_micro_per_hour, seconds)
        slots = self._capacity.slots(task.requirements)
        items = next_range(task, self._speeds.speed(task, fit.node_id, slots), most)
        pending = remove_range(task, items)
        left = replace(task, pending=pending) if pending else None
        return TaskPlacement([self._assignment(task, fit, items)], left)

    def _assignment(
        self, task: WaitingTask, fit: Fit, items: ItemRange | None = None
    ) -> Assignment:
        count = 1 if items is None else len(items)
        price, hold = fit.price_micro_per_hour, 0
        if price:
            seconds = self._settle_times.funded_seconds(task.limits.run_seconds * count)
            hold = hold_micro(price, seconds)
        reserved = fit.requirements or task.requirements
        return Assignment(
            task.id,
            fit.node_id,
            fit.shares,
            reserved,
            task.limits,
            price,
            hold,
            items,
            run_seconds(task) * count,
            task.kind,
            None if reserved is task.requirements else task.requirements,
        )


def _except(taken: set[NodeId], may_use: MayUse | None) -> MayUse:
    """A gang runs on different nodes."""
    if may_use is None:
        return lambda node_id: node_id not in taken
    return lambda node_id: node_id not in taken and may_use(node_id)


def is_at_quota(account: SchedulerAccount) -> bool:
    """Whether its quota allows nothing more to run."""
    most = account.most_running_milli
    return most is not None and account.running_milli >= most
