"""Changes of an attempt and its task: decided step by step, written to the database once.

The reports of one request are applied in order, and each step returns the change so far. The end of
an attempt, reported by its node or set by the server, is the last step.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.arrays.items import (
    Accepted,
    ArrayPart,
    ItemFailure,
    RangeEnd,
    decide_after_range,
)
from potluck.decide.charges import Settlement, cost_micro, keep_back, secured_micro, settle
from potluck.decide.failure_record import NO_RECORD, FailureRecord
from potluck.decide.lifecycle import attempt_may_become, is_nodes_fault, task_may_become
from potluck.decide.locked_attempt import LockedAttempt
from potluck.decide.retry_policy import (
    History,
    Wait,
    decide_next,
    is_counted_loss,
    is_uncounted_loss,
)
from potluck.model.blob import Value
from potluck.model.ids import AttemptId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, TaskState
from potluck.model.terms import TaskKind
from potluck.model.usage import Usage

NONE_ACCEPTED = Accepted((), 0, (), (), 0.0)


class NewResult(Struct, frozen=True):
    """The value of items from `start` up to `end` of a function, or the error of one."""

    task_id: TaskId
    attempt_id: AttemptId
    start: int
    end: int
    value: Value
    is_error: bool = False

    @property
    def sha256(self) -> bytes | None:
        return None if self.value.blob is None else bytes.fromhex(self.value.blob.sha256)

    @property
    def size_bytes(self) -> int:
        return len(self.value.data) if self.value.blob is None else self.value.blob.size_bytes


class TaskChange(Struct, frozen=True):
    """What an attempt's end changes in its task."""

    state: TaskState
    reason: EndReason | None = None
    not_before: datetime | None = None
    exit_code: int | None = None
    detail: str = ""
    failures: int = 0
    losses: int = 0
    charge_micro: int = 0
    back: tuple[ItemRange, ...] = ()  # items that another attempt may be granted
    given_up: ItemFailure | None = None  # the item that was lost too often


class AttemptChange(Struct, frozen=True):
    """An attempt as it is now, and its unwritten changes. With a reason, the attempt ends."""

    attempt: LockedAttempt  # as it was before its end
    has_prepared: bool = False
    has_begun: bool = False
    has_task_begun: bool = False
    accepted: Accepted = NONE_ACCEPTED
    results: tuple[NewResult, ...] = ()
    # Items were accepted and others remain: how often the next one was lost is not known here, so
    # the change is written and the attempt read again before anything else is decided.
    is_open: bool = False
    reason: EndReason | None = None
    exit_code: int | None = None
    detail: str = ""
    last_lines: str = ""  # what it wrote last to stderr, and its exception
    usage: Usage | None = None
    report_hash: bytes | None = None
    settlement: Settlement = Settlement()
    is_nodes_loss: bool = False
    is_outlier: bool = False  # it failed, and such tasks succeed on nodes of other owners
    spared_micro: int = 0  # what it would have cost, had it not failed without output
    task: TaskChange | None = None  # None if it continues, or the change of another attempt has it

    @property
    def state(self) -> AttemptState:
        return self.attempt.state if self.reason is None else self.reason.facts.attempt_state

    @property
    def charge_micro(self) -> int:
        return self.settlement.cost_micro

    @property
    def held_back_micro(self) -> int:
        return self.attempt.billable.held_back_micro - self.settlement.resolved_micro

    @property
    def is_spared(self) -> bool:
        return self.spared_micro > 0

    @property
    def is_over(self) -> bool:
        return self.reason is not None

    @property
    def is_decided(self) -> bool:
        return self.task is not None

    @property
    def has_outcomes(self) -> bool:
        return bool(self.accepted.done)

    @property
    def items_done(self) -> int:
        return sum(map(len, self.accepted.done))

    @property
    def items_failed(self) -> int:
        return self.items_done - self.accepted.succeeded

    @property
    def is_finished(self) -> bool:
        """Whether the node ran it to its end."""
        return self.state in (AttemptState.SUCCEEDED, AttemptState.FAILED)

    @property
    def is_refuting(self) -> bool:
        """Whether it succeeded where attempts on nodes of other owners may have failed."""
        return self.state is AttemptState.SUCCEEDED and self.attempt.has_failed_before

    @property
    def is_news(self) -> bool:
        return bool(self.has_prepared or self.has_begun or self.accepted.done or self.reason)


def prepare(change: AttemptChange) -> AttemptChange:
    """Marks an attempt that has not started as preparing."""
    if change.attempt.state is AttemptState.PREPARING:
        return change
    attempt = replace(change.attempt, state=AttemptState.PREPARING)
    return replace(change, attempt=attempt, has_prepared=True)


def start(change: AttemptChange) -> AttemptChange:
    """Marks a live attempt as running, and its task unless another range already runs."""
    attempt = change.attempt
    if attempt.state is AttemptState.RUNNING:
        return change
    is_first = attempt.task_state is TaskState.ASSIGNED
    begun = attempt.billable.started_at or attempt.taken_at
    attempt = replace(
        attempt,
        state=AttemptState.RUNNING,
        task_state=TaskState.RUNNING if is_first else attempt.task_state,
        billable=replace(attempt.billable, started_at=begun),
    )
    return replace(change, attempt=attempt, has_begun=True, has_task_begun=is_first)


def accept(
    change: AttemptChange, accepted: Accepted, results: Sequence[NewResult]
) -> AttemptChange:
    """Accepts outcomes for a range, once per change."""
    attempt = change.attempt
    assert attempt.array is not None and attempt.held is not None, "only ranges have items"
    change = replace(change, accepted=accepted, results=tuple(results))
    if sum(map(len, accepted.done)) < sum(map(len, attempt.held.remaining)):
        return replace(change, is_open=True)
    failed = accepted.failed_for_good
    array = replace(
        attempt.array,
        remaining=(),
        has_pending=attempt.array.has_pending or bool(accepted.again),
        has_outcomes=attempt.array.has_outcomes or accepted.succeeded + failed > 0,
        items_failed=attempt.array.items_failed + failed,
    )
    seconds = attempt.billable.items_seconds + accepted.run_seconds
    attempt = replace(
        attempt,
        array=array,
        held=replace(attempt.held, remaining=()),
        history=replace(attempt.history, failures=0, losses=0),
        billable=replace(attempt.billable, items_seconds=seconds),
    )
    return replace(change, attempt=attempt)


def end(
    change: AttemptChange,
    reason: EndReason,
    wait: Wait,
    *,
    exit_code: int | None = None,
    detail: str = "",
    last_lines: str = "",
    usage: Usage | None = None,
    report_hash: bytes | None = None,
    value: Value | None = None,
    record: FailureRecord = NO_RECORD,
) -> AttemptChange:
    """Ends a live attempt: decides its charge, and the next state of its task.

    `value` is what a function returned or raised, `record` what is known of its other attempts.
    """
    reason = _without_share(change.attempt, reason)
    change = _ended(change, reason, usage)
    attempt = change.attempt
    following = _after(attempt, reason, wait)
    state = following.next.state or attempt.task_state
    if change.state is AttemptState.FAILED:
        is_empty = not (attempt.has_output or change.has_outcomes or value is not None)
        is_retried = state is not TaskState.FAILED
        change = _judged(change, record, is_empty=is_empty, is_retried=is_retried)
    elif _is_false_silence(attempt, reason):
        # An outlier too: the server's own heartbeats contradict it.
        change = replace(change, is_outlier=True)
        change = _uncharged(change) if record.is_node_doubted else change
    assert state is attempt.task_state or task_may_become(attempt.task_state, state)
    task = TaskChange(
        state=state,
        reason=following.next.reason,
        not_before=following.next.not_before,
        exit_code=exit_code if attempt.array is None else None,
        detail=_task_detail(attempt.array, detail, following),
        failures=int(_is_failure(attempt, reason)),
        losses=int(is_counted_loss(reason)),
        charge_micro=change.charge_micro,
        back=following.back,
        given_up=following.given_up,
    )
    return replace(
        change,
        exit_code=exit_code,
        detail=detail,
        last_lines=last_lines,
        report_hash=report_hash,
        results=(*change.results, *_given(attempt, reason, value, task)),
        task=task,
    )


def _without_share(attempt: LockedAttempt, reason: EndReason) -> EndReason:
    """One that was granted ahead and has not started is given back, whatever the reason: it counts
    neither for its task nor for its node."""
    has_run = attempt.has_share or attempt.state is AttemptState.RUNNING
    is_loss = reason.facts.attempt_state is AttemptState.LOST
    return EndReason.GIVEN_BACK if is_loss and not has_run else reason


def cancel(live: Sequence[LockedAttempt]) -> list[AttemptChange]:
    """Cancels all live attempts of one task; the first change contains the task's."""
    reason = EndReason.CANCELLED
    first, *others = [_ended(AttemptChange(attempt), reason) for attempt in live]
    assert task_may_become(first.attempt.task_state, TaskState.CANCELLED)
    task = TaskChange(
        TaskState.CANCELLED,
        reason,
        charge_micro=first.charge_micro + sum(other.charge_micro for other in others),
        back=tuple(part for each in live if each.array for part in each.array.remaining),
    )
    return [replace(first, task=task), *others]


def _ended(change: AttemptChange, reason: EndReason, usage: Usage | None = None) -> AttemptChange:
    attempt, state = change.attempt, reason.facts.attempt_state
    assert attempt_may_become(attempt.state, state)
    return replace(
        change,
        reason=reason,
        usage=usage,
        settlement=_settlement(attempt, reason, usage),
        is_nodes_loss=state is AttemptState.LOST
        and (
            _is_false_silence(attempt, reason)
            or is_nodes_fault(
                reason,
                kind=attempt.kind,
                is_reclaimable=attempt.is_reclaimable,
                is_available=attempt.is_available,
            )
        ),
    )


def _judged(
    change: AttemptChange, record: FailureRecord, *, is_empty: bool, is_retried: bool
) -> AttemptChange:
    """A failed attempt that left nothing is charged only if it ends its task.

    So a consumer pays for at most one of them, and a node that claims such an end earns nothing if
    another owner's node succeeds. Not charged either is one of a sort that succeeds elsewhere; on a
    doubted node whatever it left, because a log is easily made up.
    """
    is_unbelieved = record.is_outlier and record.is_node_doubted
    uncharged = _uncharged(change)
    saved_micro = change.charge_micro - uncharged.charge_micro
    may_spare = record.may_spare(saved_micro, change.attempt.ran_seconds)
    is_spared = is_empty and (is_retried or record.is_outlier) and may_spare
    if change.attempt.is_judged_later:
        change = replace(change, settlement=keep_back(change.settlement))
    return replace(
        uncharged if is_spared or is_unbelieved else change,
        is_outlier=record.is_outlier,
        spared_micro=saved_micro if is_spared and not is_unbelieved else 0,
    )


def _uncharged(change: AttemptChange) -> AttemptChange:
    """What the provider was paid already stays paid."""
    return replace(change, settlement=settle(change.attempt.billable, 0))


def _settlement(attempt: LockedAttempt, reason: EndReason, usage: Usage | None) -> Settlement:
    """Lost work is not charged, except for accepted items and what a checkpoint secured.

    While an attempt may be re-adopted, rewards that were held back stay so. An end by the task's
    own limit of silence is charged like a cancellation if heartbeats came meanwhile and there is
    output: the node ran it, and the server was there.
    """
    billable = attempt.billable
    is_own_doing = _is_false_silence(attempt, reason) and attempt.has_output
    if reason.facts.attempt_state is not AttemptState.LOST or is_own_doing:
        reported = usage.run_seconds if usage else None
        billable = replace(billable, reported_run_seconds=reported)
        return settle(billable, cost_micro(billable, attempt.taken_at))
    settlement = settle(billable, secured_micro(billable, attempt.taken_at))
    if reason is EndReason.LEASE_EXPIRED:
        return Settlement(settlement.charge_micro)
    return settlement


def _is_false_silence(attempt: LockedAttempt, reason: EndReason) -> bool:
    """Whether the task's own limit of silence ended it while its node's heartbeats came."""
    is_single = attempt.array is None
    return reason is EndReason.SILENCE and attempt.was_in_contact and is_single


def _is_failure(attempt: LockedAttempt, reason: EndReason) -> bool:
    """What is charged although it was lost counts like a failure, so that it is bounded alike."""
    is_failed = reason.facts.attempt_state is AttemptState.FAILED
    return is_failed or _is_false_silence(attempt, reason)


def _after(attempt: LockedAttempt, reason: EndReason, wait: Wait) -> RangeEnd:
    """What follows for the task; a single task is a range without items."""
    before, loss = attempt.history, int(is_counted_loss(reason))
    history = History(
        failures=before.failures + _is_failure(attempt, reason),
        losses=before.losses + loss,
        nodes_lost=before.nodes_lost + loss,
        max_attempts=before.max_attempts,
        uncounted_losses=before.uncounted_losses + is_uncounted_loss(reason),
    )
    if attempt.array is None:
        is_failure = _is_failure(attempt, reason)
        return RangeEnd(decide_next(reason, history, attempt.now, wait, is_failure=is_failure), ())
    return decide_after_range(reason, history, attempt.array, attempt.now, wait)


def _task_detail(array: ArrayPart | None, detail: str, following: RangeEnd) -> str:
    """Empty while an array continues: how one range ended does not matter."""
    if array is not None and following.next.reason is EndReason.ITEMS_FAILED:
        failed = array.items_failed + (following.given_up is not None)
        return f"{failed} of {array.items} items failed."
    if following.next.detail:
        return following.next.detail
    return detail if following.next.reason is not None else ""


def _given(
    attempt: LockedAttempt, reason: EndReason, value: Value | None, task: TaskChange
) -> list[NewResult]:
    """The results that this end adds for a function.

    A single call has one once its task is final, so a retried attempt leaves none; an array has an
    error for the item that is given up.
    """
    if attempt.kind is not TaskKind.FUNCTION:
        return []
    if task.given_up is not None:
        item = task.given_up.item
        return [NewResult(attempt.task_id, attempt.id, item, item + 1, Value(), True)]
    if value is None or not task.state.is_final:
        return []
    is_error = reason is EndReason.EXCEPTION
    return [NewResult(attempt.task_id, attempt.id, 0, 1, value, is_error)]
