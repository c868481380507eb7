"""A pool of consumers and providers in virtual time, some of which play."""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import timedelta

from msgspec.structs import replace

from potluck.decide import attempt_change
from potluck.decide.attempt_change import AttemptChange
from potluck.decide.charges import (
    DEFAULT_TIMES,
    Billable,
    charge_slice,
    hold_micro,
    secured_micro,
    settle,
    settle_entries,
    slice_entries,
)
from potluck.decide.failure_record import (
    NEWEST_ENDS,
    NEWEST_OF_OWNER,
    NEWEST_TASKS,
    FailureRecord,
    has_costly_outliers,
    is_doubted,
)
from potluck.decide.locked_attempt import LockedAttempt
from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.decide.retry_policy import History, Wait, is_counted_loss, is_uncounted_loss
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import AccountShare, Assignment, FreeNode, RunningAttempt, WaitingTask
from potluck.model.backoff import BackOff
from potluck.model.device import DeviceKind
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, Limits, Requirements, TaskState
from potluck.model.terms import TaskKind
from potluck.model.usage import Usage
from verification.play.market_records import (
    START,
    AccountTotals,
    EndRecord,
    KeptReward,
    MarketSize,
    NodeRecord,
    Run,
    SliceEnd,
    TaskRecord,
    at_checkpoint,
    consumer_id,
    free_node,
    judge_kept,
    node_id_of,
    owner_of,
    virtual_time,
)
from verification.play.plays import LIMIT_SECONDS, Conduct, Play, honest, new_task

PRICE_MICRO_PER_HOUR = 1_000_000
_SPARED_SECONDS = 30 * 86_400.0
_LOAD = 0.6
_MEAN_SECONDS = 20 * 60.0
_MUCH = 10**15
_GPU = Requirements(device_kind=DeviceKind.GPU)
_LIMITS = Limits(run_seconds=LIMIT_SECONDS)


class Market:
    """One run; `plays` has what the players' attempts come to, by account."""

    def __init__(self, size: MarketSize, seed: int, plays: Mapping[AccountId, Play]) -> None:
        self._size = size
        self._plays = plays
        self._chance = random.Random(seed)
        self._arrivals = random.Random(seed + 1)
        self._scheduler = Scheduler(ORDERS["fair"](), PLACEMENTS["fragmentation"]())
        self._events: list[tuple[float, int, object]] = []
        self._count = 0
        self._tasks: dict[TaskId, TaskRecord] = {}
        self._running: dict[AttemptId, Run] = {}
        self._nodes = {node_id_of(number): NodeRecord() for number in range(size.providers)}
        # Of its tasks: whose node, whether it succeeded there, and in what time.
        self._ends: dict[AccountId, list[tuple[AccountId, bool, float]]] = defaultdict(list)
        self._kept: list[KeptReward] = []
        self._spared: dict[AccountId, list[tuple[float, int]]] = defaultdict(list)
        self._charges: dict[AccountId, list[int]] = defaultdict(list)  # of its attempts
        self.totals: dict[AccountId, AccountTotals] = defaultdict(AccountTotals)
        self.reasons: Counter[EndReason] = Counter()
        self.forfeited_micro = 0

    def run(self) -> None:
        for node_id in self._nodes:
            self._scheduler.put_node(self._node(node_id))
        for number in range(self._size.consumers):
            self._scheduler.put_account(AccountShare(consumer_id(number), available_micro=_MUCH))
            self._arrive_later(consumer_id(number), 0.0)
        while self._events:
            now, _, event = heapq.heappop(self._events)
            match event:
                case str() as account_id:
                    self._submit(AccountId(account_id), now)
                case WaitingTask():
                    self._scheduler.put_task(event)
                case RunningAttempt() if event.id in self._running:
                    self._end(event.id, now)
                case SliceEnd() if event.attempt_id in self._running:
                    self._charge_slice(event.attempt_id, now)
            self._plan(now)

    def _push(self, at: float, event: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, self._count, event))

    def _arrive_later(self, account_id: AccountId, now: float) -> None:
        """Arrivals are the same in every run of a seed."""
        rate = _LOAD * self._size.providers / self._size.consumers / _MEAN_SECONDS
        at = now + self._arrivals.expovariate(rate)
        if at < self._size.days * 86_400:
            self._push(at, str(account_id))

    def _submit(self, account_id: AccountId, now: float) -> None:
        task_id = TaskId(f"task_{len(self._tasks):08}")
        task = new_task(self._arrivals)
        if account_id in self._plays:
            task.max_attempts = 3
        self._tasks[task_id] = TaskRecord(account_id, task, now)
        self._arrive_later(account_id, now)
        self._scheduler.put_task(self._waiting(task_id))

    def _waiting(self, task_id: TaskId) -> WaitingTask:
        task = self._tasks[task_id]
        return WaitingTask(
            id=task_id,
            account_id=task.account_id,
            requirements=_GPU,
            limits=_LIMITS,
            priority=0,
            failed_on=frozenset(task.failed_on),
            submitted_at=task.submitted_at,
        )

    def _plan(self, now: float) -> None:
        is_complete = False
        while not is_complete:
            plan = self._scheduler.plan(now, 1000)
            is_complete = plan.is_complete
            for assignment in plan.assignments:
                self._start(assignment, now)

    def _start(self, assignment: Assignment, now: float) -> None:
        task = self._tasks[assignment.task_id]
        provider = owner_of(assignment.node_id)
        play = self._plays.get(provider) or self._plays.get(task.account_id) or honest
        conduct = play(task.task, self._chance)
        self._count += 1
        attempt = assignment.running(
            AttemptId(f"attempt_{self._count:08}"), task.account_id, now + LIMIT_SECONDS
        )
        billable = self._billable(attempt, assignment, conduct, now)
        self._running[attempt.id] = Run(attempt, conduct, now, billable)
        self._scheduler.put_running(attempt, now)
        self._push(now + conduct.seconds, attempt)
        if conduct.has_started:
            self._push(now + DEFAULT_TIMES.slice_seconds, SliceEnd(attempt.id))

    def _billable(
        self, attempt: RunningAttempt, assignment: Assignment, conduct: Conduct, now: float
    ) -> Billable:
        """Held is credit for two slices and a checkpoint, as in `decide/charges.py`."""
        seconds = DEFAULT_TIMES.funded_seconds(LIMIT_SECONDS)
        return Billable(
            consumer_id=self._tasks[attempt.task_id].account_id,
            provider_id=owner_of(attempt.node_id),
            price_micro_per_hour=assignment.price_micro_per_hour,
            hold_micro=hold_micro(assignment.price_micro_per_hour, seconds),
            run_seconds_limit=LIMIT_SECONDS,
            started_at=virtual_time(now) if conduct.has_started else None,
            reported_run_seconds=None,
        )

    def _charge_slice(self, attempt_id: AttemptId, now: float) -> None:
        """As `slices.py` does; without credit the attempt is stopped after a last checkpoint."""
        run = self._running[attempt_id]
        work = at_checkpoint(run, now)
        due = charge_slice(
            work, virtual_time(now), 0 if run.conduct.is_unfunded else _MUCH, DEFAULT_TIMES
        )
        assert sum(side.amount_micro for side in slice_entries(work, due)) == 0
        run.billable = replace(
            work,
            hold_micro=work.hold_micro + due.top_up_micro - due.charge_micro,
            charged_micro=work.charged_micro + due.charge_micro,
            held_back_micro=work.held_back_micro + due.charge_micro - due.release_micro,
            slices=work.slices + 1,
        )
        self.totals[work.consumer_id].paid_micro += due.charge_micro
        self.totals[work.provider_id].earned_micro += due.release_micro
        if due.is_funded:
            self._push(now + due.next_seconds, SliceEnd(attempt_id))
        else:
            run.is_unfunded = True
            self._push(now + due.next_seconds, run.attempt)

    def _end(self, attempt_id: AttemptId, now: float) -> None:
        run = self._running.pop(attempt_id)
        attempt, conduct = run.attempt, run.conduct
        seconds = now - run.began_at
        is_stopped = run.is_unfunded and seconds < conduct.seconds
        if is_stopped:
            conduct = replace(
                conduct, reason=EndReason.CREDIT, seconds=seconds, run_seconds=seconds
            )
        task = self._tasks[attempt.task_id]
        locked = self._locked(run, conduct, now)
        if conduct.reason is EndReason.CANCELLED:
            (change,) = attempt_change.cancel([locked])
        else:
            wait = Wait(BackOff(1.0, 60.0), self._chance.random())
            usage = Usage(run_seconds=conduct.seconds)
            record = self._failure_record(task.account_id, attempt.node_id, now)
            started = AttemptChange(locked)
            change = attempt_change.end(started, conduct.reason, wait, usage=usage, record=record)
        if is_stopped:
            task.task = replace(task.task, seconds=task.task.seconds - seconds)
        self.reasons[conduct.reason] += 1
        self._settle(change, conduct, now)
        if change.held_back_micro and change.state is AttemptState.FAILED:
            charged = locked.billable.charged_micro + change.settlement.cost_micro
            billable = replace(
                locked.billable, charged_micro=charged, held_back_micro=change.held_back_micro
            )
            self._kept.append(KeptReward(now, seconds, attempt.node_id, attempt.task_id, billable))
        self._count_for_node(change, task)
        self._scheduler.drop_running(attempt.id, now)
        self._scheduler.put_node(self._node(attempt.node_id))
        self._continue(change, task, now)
        self._judge(now)

    def _locked(self, run: Run, conduct: Conduct, now: float) -> LockedAttempt:
        attempt, task = run.attempt, self._tasks[run.attempt.task_id]
        return LockedAttempt(
            id=attempt.id,
            task_id=attempt.task_id,
            node_id=attempt.node_id,
            state=AttemptState.RUNNING if conduct.has_started else AttemptState.GRANTED,
            reason=None,
            task_state=TaskState.RUNNING if conduct.has_started else TaskState.ASSIGNED,
            kind=TaskKind.SCRIPT,
            billable=at_checkpoint(run, now),
            adoption=0,
            history=History(
                failures=task.failures,
                losses=task.losses,
                nodes_lost=len(task.nodes_lost - {attempt.node_id}),
                max_attempts=task.task.max_attempts,
                uncounted_losses=task.uncounted_losses,
            ),
            array=None,
            held=None,
            report_hash=None,
            is_expired=False,
            was_fetched=True,
            is_reclaimable=True,
            is_available=True,
            has_output=conduct.has_output,
            is_unfunded=run.is_unfunded,
            was_in_contact=conduct.is_in_contact,
            has_failed_before=task.failures > 0,
            taken_at=virtual_time(now),
            now=virtual_time(now),
        )

    def _failure_record(self, consumer: AccountId, node_id: NodeId, now: float) -> FailureRecord:
        """As `failure_records` in attempts.sql; all tasks of a consumer have one name."""
        spared = [each for each in self._spared[consumer] if each[0] > now - _SPARED_SECONDS]
        self._spared[consumer] = spared
        elsewhere: list[bool] = []
        usual_seconds = 0.0
        for owner, has_succeeded, seconds in reversed(self._ends[consumer]):
            if owner != owner_of(node_id):
                elsewhere.append(has_succeeded)
                usual_seconds = max(usual_seconds, seconds if has_succeeded else 0.0)
                if len(elsewhere) == NEWEST_ENDS:
                    break
        others = [
            end
            for end in self._nodes[node_id].ends[-NEWEST_OF_OWNER:]
            if end.consumer_id != consumer
        ]
        run_seconds = sum(end.seconds for end in others)
        outlier_seconds = sum(end.seconds for end in others if end.is_outlier)
        is_node_doubted = is_doubted(*self._counts(node_id)) or has_costly_outliers(
            run_seconds, outlier_seconds
        )
        return FailureRecord(
            len(spared),
            len(elsewhere),
            sum(elsewhere),
            is_node_doubted,
            sum(micro for _, micro in spared),
            sum(self._charges[consumer][-NEWEST_TASKS:]),
            usual_seconds,
            owner_seconds=run_seconds,
        )

    def _judge(self, now: float) -> None:
        """As `judge_failures` in slices.py."""

        def find_record(kept: KeptReward) -> FailureRecord:
            consumer = self._tasks[kept.task_id].account_id
            return self._failure_record(consumer, kept.node_id, now)

        self._kept, judged = judge_kept(self._kept, self._tasks, find_record, now)
        for kept, settlement in judged:
            self.totals[owner_of(kept.node_id)].earned_micro += settlement.release_micro
            self.forfeited_micro += settlement.forfeit_micro

    def _settle(self, change: AttemptChange, conduct: Conduct, now: float) -> None:
        billable, settlement = change.attempt.billable, change.settlement
        if change.reason is EndReason.LEASE_EXPIRED:  # it is not adopted again
            settlement = settle(billable, secured_micro(billable, change.attempt.now))
        sides = settle_entries(billable, settlement)
        assert sum(side.amount_micro for side in sides) == 0
        consumer, provider = self.totals[billable.consumer_id], self.totals[billable.provider_id]
        consumer.paid_micro += settlement.cost_micro
        provider.earned_micro += settlement.charge_micro + settlement.release_micro
        consumer.run_seconds += conduct.run_seconds
        consumer.attempts += 1
        paid_micro = billable.charged_micro + settlement.cost_micro
        self._charges[billable.consumer_id].append(paid_micro)
        if change.is_spared:
            self._spared[billable.consumer_id].append((now, change.spared_micro))

    def _count_for_node(self, change: AttemptChange, task: TaskRecord) -> None:
        node_id = change.attempt.node_id
        node = self._nodes[node_id]
        node.finished += change.is_finished
        node.lost += change.is_nodes_loss
        node.outliers += change.is_outlier
        billable = change.attempt.billable
        if billable.started_at is not None:
            seconds = (change.attempt.now - billable.started_at) / timedelta(seconds=1)
            end = EndRecord(node_id, task.account_id, seconds, change.is_outlier)
            node.ends.append(end)
            if change.state is AttemptState.FAILED and not change.is_outlier:
                task.refutable.append(end)
        if change.is_refuting:
            self._refute([end for end in task.refutable if end.node_id != node_id])

    def _refute(self, ends: list[EndRecord]) -> None:
        for end in ends:
            end.is_outlier = True
            self._nodes[end.node_id].outliers += 1
            if self._is_idle(end.node_id):  # else it is put when its attempt ends
                self._scheduler.put_node(self._node(end.node_id))

    def _continue(self, change: AttemptChange, task: TaskRecord, now: float) -> None:
        assert change.task is not None and change.reason is not None
        node_id, reason = change.attempt.node_id, change.reason
        task.failures += change.task.failures
        task.losses += is_counted_loss(reason)
        task.uncounted_losses += is_uncounted_loss(reason)
        if is_counted_loss(reason):
            task.nodes_lost.add(node_id)
        if change.state in (AttemptState.FAILED, AttemptState.LOST):
            task.failed_on.add(node_id)
        if change.task.state is TaskState.QUEUED:
            until = change.task.not_before
            at = now if until is None else (until - START) / timedelta(seconds=1)
            self._push(max(now, at), self._waiting(change.attempt.task_id))
        else:
            task.is_over = True
            self._note_end(change, task, now)

    def _note_end(self, change: AttemptChange, task: TaskRecord, now: float) -> None:
        if change.state not in (AttemptState.SUCCEEDED, AttemptState.FAILED):
            return
        node_id, started_at = change.attempt.node_id, change.attempt.billable.started_at
        seconds = now - (started_at - START) / timedelta(seconds=1) if started_at else 0.0
        has_succeeded = change.state is AttemptState.SUCCEEDED
        if has_succeeded:
            task.succeeded = (node_id, seconds)
        ends = self._ends[task.account_id]
        ends.append((owner_of(node_id), has_succeeded, seconds))
        del ends[: -20 * NEWEST_ENDS]

    def _is_idle(self, node_id: NodeId) -> bool:
        return all(run.attempt.node_id != node_id for run in self._running.values())

    def _counts(self, node_id: NodeId) -> tuple[int, int, int]:
        ends = self._nodes[node_id]
        return ends.finished, ends.lost, ends.outliers

    def _node(self, node_id: NodeId) -> FreeNode:
        return free_node(node_id, owner_of(node_id), PRICE_MICRO_PER_HOUR, self._counts(node_id))
