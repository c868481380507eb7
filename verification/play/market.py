"""A pool of consumers and providers in virtual time, some of which play."""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from potluck.decide import attempt_change
from potluck.decide.attempt_change import AttemptChange
from potluck.decide.charges import Billable, hold_micro, settle_entries
from potluck.decide.failure_record import (
    NEWEST_ENDS,
    NEWEST_TASKS,
    FailureRecord,
    is_doubted,
    node_reliability,
)
from potluck.decide.locked_attempt import LockedAttempt
from potluck.decide.order import ORDERS
from potluck.decide.placement import PLACEMENTS
from potluck.decide.retry_policy import History, Wait, is_counted_loss, is_uncounted_loss
from potluck.decide.scheduler import Scheduler
from potluck.decide.types import (
    AccountShare,
    Assignment,
    FreeDevice,
    FreeNode,
    RunningAttempt,
    WaitingTask,
)
from potluck.model.backoff import BackOff
from potluck.model.device import WHOLE_DEVICE_MILLI, DeviceKind
from potluck.model.ids import AccountId, AttemptId, DeviceId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import GIB, EndReason, Limits, Requirements, TaskState
from potluck.model.terms import TaskKind
from potluck.model.usage import Usage
from verification.play.plays import LIMIT_SECONDS, Conduct, Play, PlayedTask, honest, new_task

PRICE_MICRO_PER_HOUR = 1_000_000
_START = datetime(2030, 1, 1, tzinfo=UTC)
_SPARED_SECONDS = 30 * 86_400.0
_LOAD = 0.6
_MEAN_SECONDS = 20 * 60.0
_MUCH = 10**15
_GPU = Requirements(device_kind=DeviceKind.GPU)
_LIMITS = Limits(run_seconds=LIMIT_SECONDS)


class MarketSize(Struct, frozen=True):
    providers: int = 20
    consumers: int = 20
    days: float = 30.0


class AccountTotals(Struct):
    earned_micro: int = 0
    paid_micro: int = 0
    run_seconds: float = 0.0  # in which nodes really ran its code
    attempts: int = 0


class _NodeRecord(Struct):
    finished: int = 0
    lost: int = 0
    outliers: int = 0


class _TaskRecord(Struct):
    account_id: AccountId
    task: PlayedTask
    submitted_at: float
    failures: int = 0
    losses: int = 0
    uncounted_losses: int = 0
    nodes_lost: set[NodeId] = set()
    failed_on: set[NodeId] = set()
    refutable: list[NodeId] = []  # where it failed, and that was not counted yet


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
        self._tasks: dict[TaskId, _TaskRecord] = {}
        self._running: dict[AttemptId, tuple[RunningAttempt, Assignment, Conduct, float]] = {}
        self._nodes = {_node_id(number): _NodeRecord() for number in range(size.providers)}
        self._ends: dict[AccountId, list[tuple[AccountId, bool]]] = defaultdict(list)
        self._spared: dict[AccountId, list[tuple[float, int]]] = defaultdict(list)
        self._charges: dict[AccountId, list[int]] = defaultdict(list)  # of its attempts
        self.totals: dict[AccountId, AccountTotals] = defaultdict(AccountTotals)
        self.reasons: Counter[EndReason] = Counter()

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
                case RunningAttempt():
                    self._end(event.id, now)
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
        self._tasks[task_id] = _TaskRecord(account_id, task, now)
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
        provider = _owner(assignment.node_id)
        play = self._plays.get(provider) or self._plays.get(task.account_id) or honest
        conduct = play(task.task, self._chance)
        self._count += 1
        attempt = assignment.running(
            AttemptId(f"attempt_{self._count:08}"), task.account_id, now + LIMIT_SECONDS
        )
        self._running[attempt.id] = (attempt, assignment, conduct, now)
        self._scheduler.put_running(attempt, now)
        self._push(now + conduct.seconds, attempt)

    def _end(self, attempt_id: AttemptId, now: float) -> None:
        attempt, assignment, conduct, started_at = self._running.pop(attempt_id)
        task = self._tasks[attempt.task_id]
        locked = self._locked(attempt, assignment, conduct, started_at, now)
        if conduct.reason is EndReason.CANCELLED:
            (change,) = attempt_change.cancel([locked])
        else:
            wait = Wait(BackOff(1.0, 60.0), self._chance.random())
            usage = Usage(run_seconds=conduct.seconds)
            record = self._failure_record(task.account_id, attempt.node_id, now)
            started = AttemptChange(locked)
            change = attempt_change.end(started, conduct.reason, wait, usage=usage, record=record)
        self.reasons[conduct.reason] += 1
        self._settle(change, conduct, now)
        self._count_for_node(change, task)
        self._scheduler.drop_running(attempt.id, now)
        self._scheduler.put_node(self._node(attempt.node_id))
        self._continue(change, task, now)

    def _locked(
        self,
        attempt: RunningAttempt,
        assignment: Assignment,
        conduct: Conduct,
        started_at: float,
        now: float,
    ) -> LockedAttempt:
        task = self._tasks[attempt.task_id]
        at = _START + timedelta(seconds=now)
        return LockedAttempt(
            id=attempt.id,
            task_id=attempt.task_id,
            node_id=attempt.node_id,
            state=AttemptState.RUNNING if conduct.has_started else AttemptState.GRANTED,
            reason=None,
            task_state=TaskState.RUNNING if conduct.has_started else TaskState.ASSIGNED,
            kind=TaskKind.SCRIPT,
            billable=Billable(
                consumer_id=task.account_id,
                provider_id=_owner(attempt.node_id),
                price_micro_per_hour=assignment.price_micro_per_hour,
                # As a whole: no attempt of this market is charged in slices.
                hold_micro=hold_micro(assignment.price_micro_per_hour, LIMIT_SECONDS),
                run_seconds_limit=LIMIT_SECONDS,
                started_at=_START + timedelta(seconds=started_at) if conduct.has_started else None,
                reported_run_seconds=None,
            ),
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
            is_unfunded=False,
            was_in_contact=conduct.is_in_contact,
            has_failed_before=task.failures > 0,
            taken_at=at,
            now=at,
        )

    def _failure_record(self, consumer: AccountId, node_id: NodeId, now: float) -> FailureRecord:
        """As `failure_records` in attempts.sql; all tasks of a consumer have one name."""
        spared = [each for each in self._spared[consumer] if each[0] > now - _SPARED_SECONDS]
        self._spared[consumer] = spared
        elsewhere: list[bool] = []
        for owner, has_succeeded in reversed(self._ends[consumer]):
            if owner != _owner(node_id):
                elsewhere.append(has_succeeded)
                if len(elsewhere) == NEWEST_ENDS:
                    break
        is_node_doubted = is_doubted(*self._counts(node_id))
        return FailureRecord(
            len(spared),
            len(elsewhere),
            sum(elsewhere),
            is_node_doubted,
            sum(micro for _, micro in spared),
            sum(self._charges[consumer][-NEWEST_TASKS:]),
        )

    def _settle(self, change: AttemptChange, conduct: Conduct, now: float) -> None:
        billable = change.attempt.billable
        sides = settle_entries(billable, change.settlement)
        assert sum(side.amount_micro for side in sides) == 0
        consumer, provider = self.totals[billable.consumer_id], self.totals[billable.provider_id]
        consumer.paid_micro += change.charge_micro
        provider.earned_micro += change.charge_micro
        consumer.run_seconds += conduct.run_seconds
        consumer.attempts += 1
        self._charges[billable.consumer_id].append(change.charge_micro)
        if change.is_spared:
            self._spared[billable.consumer_id].append((now, change.spared_micro))

    def _count_for_node(self, change: AttemptChange, task: _TaskRecord) -> None:
        node_id = change.attempt.node_id
        node = self._nodes[node_id]
        node.finished += change.is_finished
        node.lost += change.is_nodes_loss
        node.outliers += change.is_outlier
        if change.is_refuting:
            for other in task.refutable:
                self._nodes[other].outliers += other != node_id
                if self._is_idle(other):  # else it is put when its attempt ends
                    self._scheduler.put_node(self._node(other))

    def _continue(self, change: AttemptChange, task: _TaskRecord, now: float) -> None:
        assert change.task is not None and change.reason is not None
        node_id, reason = change.attempt.node_id, change.reason
        task.failures += change.task.failures
        task.losses += is_counted_loss(reason)
        task.uncounted_losses += is_uncounted_loss(reason)
        if is_counted_loss(reason):
            task.nodes_lost.add(node_id)
        if change.state in (AttemptState.FAILED, AttemptState.LOST):
            task.failed_on.add(node_id)
        if change.state is AttemptState.FAILED and not change.is_outlier:
            task.refutable.append(node_id)
        if change.task.state is TaskState.QUEUED:
            until = change.task.not_before
            at = now if until is None else (until - _START) / timedelta(seconds=1)
            self._push(max(now, at), self._waiting(change.attempt.task_id))
        elif change.state in (AttemptState.SUCCEEDED, AttemptState.FAILED):
            ends = self._ends[task.account_id]
            ends.append((_owner(node_id), change.state is AttemptState.SUCCEEDED))
            del ends[: -20 * NEWEST_ENDS]

    def _is_idle(self, node_id: NodeId) -> bool:
        return all(running[0].node_id != node_id for running in self._running.values())

    def _counts(self, node_id: NodeId) -> tuple[int, int, int]:
        ends = self._nodes[node_id]
        return ends.finished, ends.lost, ends.outliers

    def _node(self, node_id: NodeId) -> FreeNode:
        counts = self._counts(node_id)
        owner = _owner(node_id)
        return FreeNode(
            id=node_id,
            account_id=owner,
            own_tasks_only=False,
            cores=8,
            free_cores=8,
            free_memory_bytes=16 * GIB,
            free_disk_bytes=16 * GIB,
            memory_bytes=16 * GIB,
            disk_bytes=16 * GIB,
            devices=(
                FreeDevice(
                    id=DeviceId(f"device of {node_id}"),
                    kind=DeviceKind.GPU,
                    model="GPU",
                    memory_bytes=24 * GIB,
                    price_micro_per_hour=PRICE_MICRO_PER_HOUR,
                    free_milli=WHOLE_DEVICE_MILLI,
                ),
            ),
            reliability=node_reliability(*counts),
            is_doubted=is_doubted(*counts),
            wallet=owner,
        )


def consumer_id(number: int) -> AccountId:
    return AccountId(f"consumer {number:03}")


def provider_id(number: int) -> AccountId:
    return AccountId(f"provider {number:03}")


def _node_id(number: int) -> NodeId:
    return NodeId(provider_id(number))


def _owner(node_id: NodeId) -> AccountId:
    """Each provider has one node, with the name of the account."""
    return AccountId(node_id)
