"""The scheduler: assigns waiting tasks to free devices.

`plan` decides, round by round; the other methods report changes. It is deterministic: the same
calls give the same plans. It never assigns more than it knows to be free; changes since then are
caught when the plan is applied. Its cost depends on the ready task groups, not on the waiting
tasks: a group that did not fit is not tried again until some node gains capacity.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Mapping

from msgspec import Struct

from potluck.decide.account import SchedulerAccount
from potluck.decide.ahead import AheadPlanner
from potluck.decide.arrays.node_speed import ArrayProgress, NodeSpeeds
from potluck.decide.arrays.stream_turns import WantedNodes
from potluck.decide.charges import DEFAULT_TIMES, SettleTimes
from potluck.decide.explain.explain import Explainer
from potluck.decide.explain.node import NodeExplained
from potluck.decide.explain.reason_updates import ReasonUpdates, WaitingUpdate
from potluck.decide.explain.sentences import Explained
from potluck.decide.order.interface import OrderPolicy, Place, Turn
from potluck.decide.place_task import TaskPlacer
from potluck.decide.placement.interface import Placement
from potluck.decide.pool.capacity import PoolCapacity
from potluck.decide.pool.feasibility import named_wallets
from potluck.decide.pool.suitable_devices import Suitability, UsableDevices
from potluck.decide.queue.blocked import BlockedGroups
from potluck.decide.queue.queue_depth import QueueDepth, measure_queue
from potluck.decide.queue.ready_groups import ReadyGroups
from potluck.decide.queue.task_groups import BlockReason, GroupKey, Shape, TaskGroup, TaskGroups
from potluck.decide.reservations.board import Claim
from potluck.decide.reservations.forecast import StartForecaster, StartRates
from potluck.decide.reservations.reservation_policy import ReservationPolicy
from potluck.decide.reservations.reserve import Reservations, ReserveSettings
from potluck.decide.reservations.running import RunningWork
from potluck.decide.reservations.timetable import Timetable
from potluck.decide.task_estimate import Estimated, Estimator
from potluck.decide.types import AccountShare, Assignment, FreeNode, RunningAttempt, WaitingTask
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId

# Checks of groups in a round; its caller may end it sooner.
_FEWEST_LOOKS = 1_000


def _never() -> bool:
    return False


class SchedulerPlan(Struct, frozen=True):
    assignments: tuple[Assignment, ...]
    prompt: frozenset[TaskId]  # assigned tasks that nothing but the scheduler let wait
    waiting: dict[GroupKey, WaitingUpdate]  # groups whose waiting reason has changed
    emptied: tuple[GroupKey, ...]  # groups that had a reason and are empty now
    is_complete: bool  # False if there is more to decide immediately
    has_all_reasons: bool  # False if there may be more changed reasons


class Scheduler:
    def __init__(
        self,
        order: OrderPolicy,
        placement: Placement,
        reserve: ReserveSettings | None = None,
        reason_seconds: float = 5.0,
        settle_times: SettleTimes = DEFAULT_TIMES,
    ) -> None:
        self._order = order
        self._accounts: dict[AccountId, SchedulerAccount] = {}
        self._capacity = PoolCapacity(placement)
        self._suitability = Suitability(self._capacity)
        settings = reserve or ReserveSettings()
        self._timetable = Timetable(settings.extension_seconds)
        self._running = RunningWork(self._timetable)
        self._speeds = NodeSpeeds(self._running)
        self._groups = TaskGroups(order)
        self._ready = ReadyGroups(self._groups)
        self._blocked = BlockedGroups(self._groups)
        self._to_try: OrderedDict[Shape, None] = OrderedDict()  # these may fit now
        self._rates = StartRates()
        self._turns = 0
        self._prompt: set[TaskId] = set()
        reservations = Reservations(
            self._timetable, self._suitable, self._suitability.on, self._capacity.demand_of
        )
        self._reservation_policy = ReservationPolicy(
            order,
            (self._groups, self._blocked),
            self._accounts,
            self._suitability,
            reservations,
            settings,
        )
        self._placer = TaskPlacer(
            self._capacity,
            reservations,
            self._timetable,
            self._speeds,
            order.promises,
            settle_times,
        )
        queue, policies = (self._groups, self._blocked), (reservations, settle_times)
        self.ahead = AheadPlanner(
            order, queue, self._accounts, self._suitability, *policies, self._forget_if_empty
        )
        forecaster = StartForecaster(reservations, self._rates, self._timetable)
        pool = (self._capacity, self._suitability)
        self._explainer = Explainer(order, self._groups, self._accounts, pool, forecaster)
        self._estimator = Estimator(
            self._groups, self._capacity, reservations, forecaster, settle_times
        )
        self._reason_updates = ReasonUpdates(self._groups, self._explainer.reason, reason_seconds)

    def put_task(self, task: WaitingTask) -> None:
        """Adds or replaces a task that is ready for an attempt."""
        if (owners := named_wallets(task.requirements)) and self._capacity.ask_for(owners):
            self._pool_changed()
        known = self._groups.task(task.id)
        before = None if known is None else self._groups.group_of(known)
        group = self._groups.put(task)
        if group.block_reason is not BlockReason.NONE:
            group.waited_until = max(group.waited_until, task.submitted_at)
        if before is not None and before is not group:
            self._forget_if_empty(before)
        entry = self._groups.first(group)
        if entry is not None and entry[2] is task:
            self._account(task.account_id)
            self._look_again(group)

    def drop_task(self, task_id: TaskId) -> None:
        task = self._groups.drop(task_id)
        self._speeds.forget(task_id)
        group = None if task is None else self._groups.group_of(task)
        if group is not None:
            self._forget_if_empty(group)

    def task(self, task_id: TaskId) -> WaitingTask | None:
        return self._groups.task(task_id)

    def task_ids(self) -> list[TaskId]:
        return self._groups.task_ids()

    def has_line(self, key: GroupKey) -> bool:
        return self._groups.has(key)

    @property
    def waiting_count(self) -> int:
        return len(self._groups)

    def queue_depth(self) -> dict[tuple[int, str], QueueDepth]:
        """The waiting tasks by priority and waiting reason."""
        return measure_queue(self._groups, self._reason_updates.code_of)

    def put_node(self, node: FreeNode) -> None:
        if self._capacity.put_node(node):
            self._pool_changed()
        self._timetable.put_node(node)

    def drop_node(self, node_id: NodeId) -> None:
        self._capacity.drop_node(node_id)
        self._timetable.drop_node(node_id)
        self._pool_changed()

    def put_running(self, attempt: RunningAttempt, now: float) -> None:
        """Adds a live attempt; confirms it if it was planned."""
        self._running.put(attempt, self._account(attempt.account_id), now)
        self.ahead.lines.put(attempt, now)

    def drop_running(self, attempt_id: AttemptId, now: float) -> None:
        attempt = self._timetable.get(attempt_id)
        if attempt is not None:
            self.ahead.lines.drop(attempt, now)
            self._running.drop(attempt_id, self._account(attempt.account_id), now)
            self._release_account(attempt.account_id)

    def refused(self, assignment: Assignment, now: float) -> None:
        """An assignment could not be applied. The caller must put its node and task again."""
        account_id = self._running.cease(assignment.task_id, assignment.node_id, now)
        if account_id is not None:
            self._release_account(account_id)

    def give(self, attempt: RunningAttempt, now: float) -> None:
        """Frees the resources of an ended attempt in a simulation, which reads no nodes."""
        self._capacity.give(attempt)
        self.drop_running(attempt.id, now)

    def put_account(self, share: AccountShare) -> None:
        self._account(share.id).read(share)
        self._release_account(share.id)

    def recall(self, account_id: AccountId, used_milli_seconds: float, until: float) -> None:
        """Adds an account's recent use from before `until`, the time from which it is counted."""
        self._account(account_id).recall(used_milli_seconds, until)

    def observed(self, task_id: TaskId, seen: Mapping[NodeId, ArrayProgress]) -> None:
        """Sets the recent progress of an array on its nodes."""
        if self._groups.task(task_id) is not None:
            self._speeds.observe(task_id, seen)

    def plan(self, now: float, most: int, is_time_up: Callable[[], bool] = _never) -> SchedulerPlan:
        """Makes about `most` assignments at most; `is_complete` is False if there may be more.

        It also ends after a number of checks of groups that cannot be placed, or once `is_time_up`
        returns True, but never without any check.
        """
        self._learn()
        self._timetable.look(now)
        assignments = self._renew_reservations(now)  # while blocked groups are still known as such
        looks = max(_FEWEST_LOOKS, most)
        looks -= self._retry_blocked(looks // 2, is_time_up)
        turns = [turn for each in self._ready.accounts() if (turn := self._turn(each, now))]
        heapq.heapify(turns)
        while turns and len(assignments) < most and looks > 0:
            looks -= 1
            account_id = turns[0][-1]
            assignments += self._serve(self._accounts[account_id], now)
            if turn := self._turn(account_id, now):
                heapq.heapreplace(turns, turn)
            else:
                heapq.heappop(turns)
            if is_time_up():
                break
        is_complete = not turns and not self._to_try
        updates, plan = self._reason_updates, tuple(assignments)
        waiting, emptied = updates.take_changed(now), updates.take_emptied()
        prompt, self._prompt = frozenset(self._prompt), set()
        return SchedulerPlan(plan, prompt, waiting, emptied, is_complete, updates.is_done)

    def explain(self, task_id: TaskId, now: float) -> Explained | None:
        """Why a task waits; None if it is not in the queue."""
        return self._explainer.explain(task_id, now)

    def estimate(self, task: WaitingTask, now: float) -> Estimated:
        """Estimates a task that was not submitted, without side effects."""
        account = self._accounts.get(task.account_id) or SchedulerAccount(task.account_id)
        return self._estimator.estimate(task, account, now)

    def wanted_nodes(self, most: int) -> list[WantedNodes]:
        """Where the first groups that wait for capacity could run."""
        tasks = self._blocked.first_tasks(most)
        return [WantedNodes(task.id, frozenset(self._suitable(task))) for task in tasks]

    def explain_node(self, node_id: NodeId) -> NodeExplained | None:
        """Why a node gets no work, or no more; None if the node is unknown."""
        return self._explainer.explain_node(node_id, self._timetable.count_on(node_id))

    def _learn(self) -> None:
        for group, count in self._groups.take_arrived().items():
            self._capacity.learn(group.key.requirements, count)

    def _turn(self, account_id: AccountId, now: float) -> tuple[Place, float, AccountId] | None:
        """Ties are broken by the age of the first task."""
        task = self._ready.first(account_id)
        if task is None:
            return None
        place = self._order.between(Turn(task, self._accounts[account_id], now))
        return place, task.submitted_at, account_id

    def _serve(self, account: SchedulerAccount, now: float) -> list[Assignment]:
        """Places the account's first task, or blocks its group."""
        group, task = self._ready.head(account.id)
        is_full = group.shape in self._blocked
        found = BlockReason.NO_CAPACITY if is_full else self._placer.find(task, account, now)
        if isinstance(found, BlockReason):
            self._ready.take(account.id)
            self._blocked.add(group, found)
            group.waited_until = now
            self._reason_updates.note(group)
            self._offer_next(group)
            return []
        if task.submitted_at > group.waited_until:
            self._prompt.add(task.id)
        self._groups.serve(group, found.left)
        self._rates.count(group.shape, task.submitted_at, now)
        if self._ready.renew(account.id):
            self._offer_next(group)
        else:
            self._forget_if_empty(group)
        return self._count(task, found.assignments, account, now)

    def _count(
        self, task: WaitingTask, given: list[Assignment], account: SchedulerAccount, now: float
    ) -> list[Assignment]:
        for assignment in given:
            self._running.expect(task, assignment, account, now)
        self._turns += 1
        account.turn = self._turns
        account.served_at = now
        return given

    def _renew_reservations(self, now: float) -> list[Assignment]:
        """Renews reservations from time to time, and starts tasks that can wait no longer."""
        if not self._reservation_policy.is_due(now):
            return []
        started: list[Assignment] = []
        while more := [
            each for claim in self._reservation_policy.plan(now) for each in self._start(claim, now)
        ]:
            started += more
        self._offer(self._blocked.release_kept())
        return started

    def _start(self, claim: Claim, now: float) -> list[Assignment]:
        """Starts a task that need not be the first of its group."""
        task = claim.task
        account = self._accounts[task.account_id]
        found = self._placer.find_on(task, account, claim.node_ids)
        if isinstance(found, BlockReason):
            return []
        group = self._groups.group_of(task)
        assert group is not None
        self._rates.count(group.shape, task.submitted_at, now)
        if found.left is None:
            self._groups.drop(task.id)
        else:
            self._groups.put(found.left)
        self._forget_if_empty(group)
        return self._count(task, found.assignments, account, now)

    def _suitable(self, task: WaitingTask) -> dict[NodeId, UsableDevices]:
        """The nodes where it could ever run without delaying the end of its array."""
        found = self._suitability.devices(task)
        unfit = self._speeds.unfit(task) if task.pending else frozenset()
        return {each: found[each] for each in found if each not in unfit} if unfit else found

    def _retry_blocked(self, most: int, is_time_up: Callable[[], bool]) -> int:
        """After a gain of capacity, tries blocked shapes again, once each.

        Returns how many were tried. The others follow in the next rounds, before these.
        """
        if self._capacity.gained():
            self._to_try.update(dict.fromkeys(self._blocked.shapes()))
            self._offer(self._blocked.release_kept())
            self._offer(self._blocked.release_credit())
        looks = 0
        while self._to_try and looks < most:
            shape, _ = self._to_try.popitem(last=False)
            looks += self._try_again(shape)
            if is_time_up():
                break
        return looks

    def _try_again(self, shape: Shape) -> bool:
        """Returns False if the shape had only empty groups, which cost nothing."""
        while (group := self._blocked.group_of(shape)) is not None:
            entry = self._groups.first(group)
            if entry is not None:
                if self._capacity.could_fit(entry[2]):
                    self._offer(self._blocked.release_shape(shape))
                return True
            self._forget_if_empty(group)
        return False

    def _forget_if_empty(self, group: TaskGroup) -> None:
        if self._groups.first(group) is None:
            self._blocked.discard(group)
            if not self._groups.has(group.key):  # else the reason belongs to the new group
                self._reason_updates.forget(group)
            self._offer_next(group)

    def _offer_next(self, group: TaskGroup) -> None:
        """The next group of its shape may fit too, unless this one did not."""
        following = self._blocked.release_next(group)
        if following is not None:
            self._ready.offer(following)

    def _release_account(self, account_id: AccountId) -> None:
        self._offer(self._blocked.release_account(account_id))

    def _pool_changed(self) -> None:
        """Regroups the accounts that a node now treats specially, or no longer does."""
        self._suitability.forget()
        self._reason_updates.mark_stale()
        for group in self._groups.set_named(self._capacity.named):
            self._blocked.discard(group)
            self._groups.regroup(group)
            self._ready.offer(group)

    def _offer(self, groups: list[TaskGroup]) -> None:
        for group in groups:
            self._ready.offer(group)

    def _look_again(self, group: TaskGroup) -> None:
        """A new first task may fit where the one before it did not, or come earlier in order."""
        if group.block_reason in (BlockReason.KEPT, BlockReason.SLOW):
            self._blocked.discard(group)
            self._ready.offer(group)
        elif group.block_reason is BlockReason.NO_CAPACITY:
            self._blocked.reorder(group)
        elif group.block_reason is BlockReason.NONE:
            self._ready.offer(group)

    def _account(self, account_id: AccountId) -> SchedulerAccount:
        if account_id not in self._accounts:
            self._accounts[account_id] = SchedulerAccount(account_id)
        return self._accounts[account_id]
