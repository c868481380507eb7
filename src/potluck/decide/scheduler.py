"""The scheduler: assigns waiting tasks to free devices.

`plan` decides, round by round; the other methods report changes. It is deterministic: the same
calls give the same plans. It never assigns more than it knows to be free; changes since then are
caught when the plan is applied. Its cost depends on the ready task groups, not on the waiting
tasks: a group that did not fit is not tried again until some node gains capacity.
"""

import heapq
from collections import OrderedDict
from collections.abc import Mapping

from msgspec import Struct

from potluck.decide.account import SchedulerAccount
from potluck.decide.arrays.node_speed import ArrayProgress, Paces
from potluck.decide.explain.explain import Explainer
from potluck.decide.explain.node import NodeExplained
from potluck.decide.explain.reason_updates import ReasonUpdates, Waiting
from potluck.decide.explain.sentences import Explained
from potluck.decide.order.interface import OrderPolicy, Place, Turn
from potluck.decide.place_task import Finder
from potluck.decide.placement.interface import Placement
from potluck.decide.pool.capacity import Capacity
from potluck.decide.pool.suitable_devices import Suitability, UsableDevices
from potluck.decide.queue.blocked import Halted
from potluck.decide.queue.ready_groups import ReadyGroups
from potluck.decide.queue.task_groups import (
    Halt,
    LineKey,
    Lines,
    Shape,
    TaskGroup,
)
from potluck.decide.reservations.forecast import Foresight, Rates
from potluck.decide.reservations.reservation_policy import Promises
from potluck.decide.reservations.reserve import Claim, Reservations, ReserveSettings
from potluck.decide.reservations.running import RunningWork
from potluck.decide.reservations.timetable import Timetable
from potluck.decide.task_estimate import Estimated, Estimator
from potluck.decide.types import (
    AccountShare,
    Assignment,
    FreeNode,
    RunningAttempt,
    WaitingTask,
)
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId

# Checks of groups in a round, which take a fraction of a second.
_FEWEST_LOOKS = 1_000


class SchedulerPlan(Struct, frozen=True):
    assignments: tuple[Assignment, ...]
    waiting: dict[LineKey, Waiting]  # groups whose waiting reason has changed
    emptied: tuple[LineKey, ...]  # groups that had a reason and are empty now
    is_complete: bool  # False if there is more to decide immediately
    is_told: bool  # False if there may be more changed reasons


class Scheduler:
    def __init__(
        self,
        order: OrderPolicy,
        placement: Placement,
        reserve: ReserveSettings | None = None,
        reason_seconds: float = 5.0,
    ) -> None:
        self._order = order
        self._accounts: dict[AccountId, SchedulerAccount] = {}
        self._capacity = Capacity(placement)
        self._suitability = Suitability(self._capacity)
        settings = reserve or ReserveSettings()
        self._timetable = Timetable(settings.extension_seconds)
        self._running = RunningWork(self._timetable)
        self._paces = Paces(self._running)
        self._lines = Lines(order)
        self._ready = ReadyGroups(self._lines)
        self._halted = Halted(self._lines)
        self._to_try: OrderedDict[Shape, None] = OrderedDict()  # these may fit now
        self._rates = Rates()
        self._turns = 0
        reservations = Reservations(self._timetable, self._suitable, self._suitability.on)
        self._promises = Promises(
            order,
            (self._lines, self._halted),
            self._accounts,
            self._suitability,
            reservations,
            settings,
        )
        self._finder = Finder(
            self._capacity, reservations, self._timetable, self._paces, order.promises
        )
        foresight = Foresight(reservations, self._rates, self._timetable)
        pool = (self._capacity, self._suitability)
        self._explainer = Explainer(order, self._lines, self._accounts, pool, foresight)
        self._estimator = Estimator(self._lines, self._capacity, reservations, foresight)
        self._told = ReasonUpdates(self._lines, self._explainer.reason, reason_seconds)

    def put_task(self, task: WaitingTask) -> None:
        """Adds or replaces a task that is ready for an attempt."""
        owners = task.requirements.owners
        if owners and self._capacity.ask_for(owners):
            self._pool_changed()
        known = self._lines.task(task.id)
        before = None if known is None else self._lines.line_of(known)
        line = self._lines.put(task)
        if before is not None and before is not line:
            self._forget_if_empty(before)
        entry = self._lines.first(line)
        if entry is not None and entry[2] is task:
            self._account(task.account_id)
            self._look_again(line)

    def drop_task(self, task_id: TaskId) -> None:
        task = self._lines.drop(task_id)
        self._paces.forget(task_id)
        line = None if task is None else self._lines.line_of(task)
        if line is not None:
            self._forget_if_empty(line)

    def task(self, task_id: TaskId) -> WaitingTask | None:
        return self._lines.task(task_id)

    def task_ids(self) -> list[TaskId]:
        return self._lines.task_ids()

    def has_line(self, key: LineKey) -> bool:
        return self._lines.has(key)

    @property
    def waiting_count(self) -> int:
        return len(self._lines)

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

    def drop_running(self, attempt_id: AttemptId, now: float) -> None:
        attempt = self._timetable.get(attempt_id)
        if attempt is not None:
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
        if self._lines.task(task_id) is not None:
            self._paces.observe(task_id, seen)

    def plan(self, now: float, most: int) -> SchedulerPlan:
        """Makes about `most` assignments at most; `is_complete` is False if there may be more.

        It also ends after a number of checks of groups that cannot be placed.
        """
        self._learn()
        self._timetable.look(now)
        assignments = self._lay_out(now)  # while blocked groups are still known as such
        looks = max(_FEWEST_LOOKS, most)
        looks -= self._release_room(looks // 2)
        turns = [turn for each in self._ready.accounts() if (turn := self._turn(each, now))]
        heapq.heapify(turns)
        while turns and len(assignments) < most and looks > 0:
            looks -= 1
            account_id = heapq.heappop(turns)[-1]
            assignments += self._serve(self._accounts[account_id], now)
            if turn := self._turn(account_id, now):
                heapq.heappush(turns, turn)
        is_complete = not turns and not self._to_try
        waiting, emptied = self._told.tell(now), self._told.take_emptied()
        return SchedulerPlan(tuple(assignments), waiting, emptied, is_complete, self._told.is_done)

    def explain(self, task_id: TaskId, now: float) -> Explained | None:
        """Why a task waits; None if it is not in the queue."""
        return self._explainer.explain(task_id, now)

    def estimate(self, task: WaitingTask, now: float) -> Estimated:
        """Estimates a task that was not submitted, without side effects."""
        account = self._accounts.get(task.account_id) or SchedulerAccount(task.account_id)
        return self._estimator.estimate(task, account, now)

    def explain_node(self, node_id: NodeId) -> NodeExplained | None:
        """Why a node gets no work, or no more; None if the node is unknown."""
        return self._explainer.explain_node(node_id, self._timetable.count_on(node_id))

    def _learn(self) -> None:
        for line, count in self._lines.take_arrived().items():
            self._capacity.learn(line.key.requirements, count)

    def _turn(self, account_id: AccountId, now: float) -> tuple[Place, float, AccountId] | None:
        """Ties are broken by the age of the first task."""
        task = self._ready.first(account_id)
        if task is None:
            return None
        place = self._order.between(Turn(task, self._accounts[account_id], now))
        return place, task.submitted_at, account_id

    def _serve(self, account: SchedulerAccount, now: float) -> list[Assignment]:
        """Places the account's first task, or blocks its group."""
        line, task = self._ready.take(account.id)
        found = Halt.ROOM if line.shape in self._halted else self._finder.find(task, account, now)
        if isinstance(found, Halt):
            self._halted.add(line, found)
            self._told.note(line)
            self._offer_next(line)
            return []
        self._lines.serve(line, found.left)
        self._rates.count(line.shape, task.submitted_at, now)
        if self._ready.offer(line):
            self._offer_next(line)
        else:
            self._forget_if_empty(line)
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

    def _lay_out(self, now: float) -> list[Assignment]:
        """Renews reservations from time to time, and starts tasks that can wait no longer."""
        if not self._promises.is_due(now):
            return []
        started: list[Assignment] = []
        while more := [
            each for claim in self._promises.lay_out(now) for each in self._start(claim, now)
        ]:
            started += more
        self._offer(self._halted.release_kept())
        return started

    def _start(self, claim: Claim, now: float) -> list[Assignment]:
        """Starts a task that need not be the first of its group."""
        task = claim.task
        account = self._accounts[task.account_id]
        found = self._finder.find_on(task, account, claim.node_ids)
        if isinstance(found, Halt):
            return []
        line = self._lines.line_of(task)
        assert line is not None
        self._rates.count(line.shape, task.submitted_at, now)
        if found.left is None:
            self._lines.drop(task.id)
        else:
            self._lines.put(found.left)
        self._forget_if_empty(line)
        return self._count(task, found.assignments, account, now)

    def _suitable(self, task: WaitingTask) -> dict[NodeId, UsableDevices]:
        """The nodes where it could ever run without delaying the end of its array."""
        found = self._suitability.devices(task)
        unfit = self._paces.unfit(task) if task.pending else frozenset()
        return {each: found[each] for each in found if each not in unfit} if unfit else found

    def _release_room(self, most: int) -> int:
        """After a gain of capacity, tries blocked shapes again, once each.

        Returns how many were tried. The others follow in the next rounds, before these.
        """
        if self._capacity.gained():
            self._to_try.update(dict.fromkeys(self._halted.shapes()))
            self._offer(self._halted.release_kept())
            self._offer(self._halted.release_credit())
        looks = 0
        while self._to_try and looks < most:
            shape, _ = self._to_try.popitem(last=False)
            looks += self._try_again(shape)
        return looks

    def _try_again(self, shape: Shape) -> bool:
        """Returns False if the shape had only empty groups, which cost nothing."""
        while (line := self._halted.line_of(shape)) is not None:
            entry = self._lines.first(line)
            if entry is not None:
                if self._capacity.could_have_room(entry[2]):
                    self._offer(self._halted.release_shape(shape))
                return True
            self._forget_if_empty(line)
        return False

    def _forget_if_empty(self, line: TaskGroup) -> None:
        if self._lines.first(line) is None:
            self._halted.discard(line)
            if not self._lines.has(line.key):  # else the reason belongs to the new group
                self._told.forget(line)
            self._offer_next(line)

    def _offer_next(self, line: TaskGroup) -> None:
        """The next group of its shape may fit too, unless this one did not."""
        following = self._halted.release_next(line)
        if following is not None:
            self._ready.offer(following)

    def _release_account(self, account_id: AccountId) -> None:
        self._offer(self._halted.release_account(account_id))

    def _pool_changed(self) -> None:
        """Regroups the accounts that a node now treats specially, or no longer does."""
        self._suitability.forget()
        self._told.doubt()
        for line in self._lines.set_named(self._capacity.named):
            self._halted.discard(line)
            self._lines.regroup(line)
            self._ready.offer(line)

    def _offer(self, lines: list[TaskGroup]) -> None:
        for line in lines:
            self._ready.offer(line)

    def _look_again(self, line: TaskGroup) -> None:
        """A new first task may fit where the one before it did not, or come earlier in order."""
        if line.halt in (Halt.KEPT, Halt.SLOW):
            self._halted.discard(line)
            self._ready.offer(line)
        elif line.halt is Halt.ROOM:
            self._halted.reorder(line)
        elif line.halt is Halt.NONE:
            self._ready.offer(line)

    def _account(self, account_id: AccountId) -> SchedulerAccount:
        account = self._accounts.get(account_id)
        if account is None:
            account = self._accounts[account_id] = SchedulerAccount(account_id)
        return account
