"""Invariants that hold at every moment, whatever process was killed.

`violations` takes a snapshot of the database and lists every violated invariant. Each fact contains
everything that its invariants need, so a snapshot may be of a few tasks, nodes and accounts or of
all of them. It is checked in tests after every fault, in simulation after every step, and from time
to time in production.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from potluck.decide.lifecycle import task_may_become
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState

Spans: TypeAlias = tuple[
    tuple[int, int], ...
]  # items from the first up to, not including, the last


class ArrayFact(Struct, frozen=True):
    """Where the items of an array are; an item that is in none of these places has succeeded."""

    items: int
    allow_failures: int
    pending: Spans
    failed: Spans  # for good
    remaining: tuple[Spans, ...]  # of each live attempt
    items_succeeded: int
    items_failed: int
    cancelled: Spans = ()  # of a call stream
    is_open: bool = False  # a call stream that takes more items


class TaskFact(Struct, frozen=True):
    id: str
    state: TaskState
    reason: EndReason | None
    live: int  # attempts that are
    accepted: int  # attempts that succeeded
    waits_for: int
    dependencies: int  # rows of tasks that it waits for
    array: ArrayFact | None = None
    history: tuple[TaskState, ...] | None = None  # the states of its events; None if not read


class AttemptFact(Struct, frozen=True):
    id: str
    state: AttemptState
    hold_micro: int
    charge_micro: int
    held_micro: int  # still held for it by the ledger
    charged_micro: int  # charged for it by the ledger, in all its lives
    held_back_micro: int  # of that, the part that was not paid yet
    entries_held_back_micro: int
    lives: int  # how often it was granted or adopted
    settled: int  # the last life with a refund; 0 if none


class NodeFact(Struct, frozen=True):
    """Resources in use by the node's row, and by its live attempts."""

    id: str
    used_cores: int
    used_memory_bytes: int
    used_disk_bytes: int
    reserved_cores: int
    reserved_memory_bytes: int
    reserved_disk_bytes: int


class DeviceFact(Struct, frozen=True):
    id: str
    used_milli: int
    used_memory_bytes: int
    reserved_milli: int  # by live attempts
    reserved_memory_bytes: int
    accounts: int  # that use it now
    may_serve_several: bool  # it is a partition, or its owner and all users agreed


class PurseFact(Struct, frozen=True):
    account_id: str
    available_micro: int
    held_micro: int
    held_back_micro: int
    entries_available_micro: int
    entries_held_micro: int
    entries_held_back_micro: int
    claimable_micro: int = 0
    entries_claimable_micro: int = 0
    # Ever, by the account's row, and by its entries.
    earned_micro: int = 0
    fee_micro: int = 0
    paid_micro: int = 0
    entries_earned_micro: int = 0
    entries_fee_micro: int = 0
    # By the rows of payouts and of closed epochs.
    payouts_micro: int = 0
    set_aside_micro: int = 0
    counted_earned_micro: int = 0
    counted_fee_micro: int = 0
    # In roots of contracts and not claimed: by the account's row, and by the roots and claims.
    assigned_micro: int = 0
    roots_micro: int = 0


class InvariantSnapshot(Struct, frozen=True):
    tasks: tuple[TaskFact, ...] = ()
    attempts: tuple[AttemptFact, ...] = ()
    nodes: tuple[NodeFact, ...] = ()
    devices: tuple[DeviceFact, ...] = ()
    purses: tuple[PurseFact, ...] = ()
    entries_sum_micro: int = 0


class Violation(Struct, frozen=True):
    subject: str  # the id of what contradicts itself
    sentence: str
    is_of_ledger: bool = False


# The subject of a sum that is not zero.
LEDGER = "ledger"


def check_invariants(picture: InvariantSnapshot) -> list[str]:
    return [violation.sentence for violation in find_violations(picture)]


def find_violations(picture: InvariantSnapshot) -> list[Violation]:
    return [
        *(Violation(task.id, found) for task in picture.tasks for found in _task_violations(task)),
        *(
            Violation(attempt.id, found, is_of_ledger=True)
            for attempt in picture.attempts
            for found in _attempt_violations(attempt)
        ),
        *(Violation(node.id, found) for node in picture.nodes for found in _node_violations(node)),
        *(
            Violation(device.id, found)
            for device in picture.devices
            for found in _device_violations(device)
        ),
        *_ledger_violations(picture),
    ]


def _task_violations(task: TaskFact) -> Iterator[str]:
    if not task.state.is_final and task.waits_for != task.dependencies:
        yield f"{task.id} waits for {task.waits_for} tasks, but for {task.dependencies} by its rows"
    if task.history is not None:
        yield from _history_violations(task, task.history)
    if task.array is None:
        yield from _single_violations(task)
    else:
        yield from _array_violations(task, task.array)


def _single_violations(task: TaskFact) -> Iterator[str]:
    wanted = 1 if task.state in (TaskState.ASSIGNED, TaskState.RUNNING) else 0
    if task.live != wanted:
        yield f"{task.id} is {task.state} with {task.live} live attempts"
    accepted = 1 if task.state is TaskState.SUCCEEDED else 0
    if task.accepted != accepted:
        yield f"{task.id} is {task.state} with {task.accepted} accepted results"


def _array_violations(task: TaskFact, array: ArrayFact) -> Iterator[str]:
    is_at_work = task.state in (TaskState.ASSIGNED, TaskState.RUNNING)
    if (task.live > 0) != is_at_work:
        yield f"{task.id} is {task.state} with {task.live} live attempts"
    if _size(array.failed) != array.items_failed:
        yield f"{task.id} counts {array.items_failed} of {_size(array.failed)} failed items"
    if task.reason is EndReason.CANCELLED or task.state in _CALLED_OFF:
        return  # its remaining items belong to no attempt any more
    yield from _place_violations(task, array)
    yield from _verdict_violations(task, array)


_CALLED_OFF = (TaskState.CANCELLED, TaskState.EXPIRED)


def _place_violations(task: TaskFact, array: ArrayFact) -> Iterator[str]:
    """Every item is in exactly one place."""
    if task.state is TaskState.FAILED and task.reason is not EndReason.ITEMS_FAILED:
        return  # it ended before its items did
    places = [array.pending, array.failed, array.cancelled, *array.remaining]
    spans = sorted(span for place in places for span in place)
    if any(first[1] > second[0] for first, second in pairwise(spans)):
        yield f"{task.id} has items in two places: {spans}"
    known = array.items_succeeded + sum(map(_size, places))
    is_outside = bool(spans) and (spans[0][0] < 0 or spans[-1][1] > array.items)
    if known != array.items or is_outside:
        yield f"{task.id} has {array.items} items, of which {known} are somewhere"


def _verdict_violations(task: TaskFact, array: ArrayFact) -> Iterator[str]:
    done = array.items_succeeded + array.items_failed + _size(array.cancelled)
    is_done = done == array.items
    is_good = array.items_failed <= array.allow_failures
    if task.state is TaskState.SUCCEEDED and not (is_done and is_good):
        yield f"{task.id} succeeded with {array.items_succeeded} of {array.items} items"
    if task.reason is EndReason.ITEMS_FAILED and task.state.is_final and (is_good or not is_done):
        yield f"{task.id} failed with {array.items_failed} failures of {array.allow_failures}"
    if is_done and not task.state.is_final and not task.live and not array.is_open:
        yield f"{task.id} is {task.state}, and all its items are done"


def _history_violations(task: TaskFact, history: Sequence[TaskState]) -> Iterator[str]:
    """Its events are valid transitions and end in its state."""
    if not history or history[0] is not TaskState.QUEUED:
        yield f"{task.id} has a history that does not begin in the queue: {history[:1]}"
    elif history[-1] is not task.state:
        yield f"{task.id} is {task.state}, but its events end with {history[-1]}"
    for before, after in pairwise(history):
        if not task_may_become(before, after):
            yield f"{task.id} went from {before} to {after} by its events"


def _attempt_violations(attempt: AttemptFact) -> Iterator[str]:
    expected = attempt.hold_micro if attempt.state.is_live else 0
    if attempt.held_micro != expected:
        yield f"{attempt.id} is {attempt.state}, and {attempt.held_micro} is held for it"
    if attempt.held_back_micro != attempt.entries_held_back_micro:
        entries = attempt.entries_held_back_micro
        yield f"{attempt.id} has {attempt.held_back_micro} held back, but {entries} by its entries"
    if attempt.charged_micro != attempt.charge_micro:
        yield f"{attempt.id} cost {attempt.charge_micro}, but {attempt.charged_micro} was charged"
    if attempt.state.is_live and attempt.settled >= attempt.lives:
        yield f"{attempt.id} is {attempt.state}, and settled already"


def _node_violations(node: NodeFact) -> Iterator[str]:
    used = (node.used_cores, node.used_memory_bytes, node.used_disk_bytes)
    reserved = (node.reserved_cores, node.reserved_memory_bytes, node.reserved_disk_bytes)
    if used != reserved:
        yield f"{node.id} has {used} in use, but its attempts reserved {reserved}"


def _device_violations(device: DeviceFact) -> Iterator[str]:
    used = (device.used_milli, device.used_memory_bytes)
    reserved = (device.reserved_milli, device.reserved_memory_bytes)
    if used != reserved:
        yield f"{device.id} has {used} in use of {reserved} reserved"
    if not 0 <= device.used_milli <= 1000:
        yield f"{device.id} has {device.used_milli} thousandths in use"
    if device.accounts > 1 and not device.may_serve_several:
        yield f"{device.id} serves {device.accounts} accounts at a time"


def _ledger_violations(picture: InvariantSnapshot) -> Iterator[Violation]:
    if picture.entries_sum_micro != 0:
        sentence = f"all entries sum to {picture.entries_sum_micro}"
        yield Violation(LEDGER, sentence, is_of_ledger=True)
    for purse in picture.purses:
        for sentence in _purse_violations(purse):
            yield Violation(purse.account_id, sentence, is_of_ledger=True)


def _purse_violations(purse: PurseFact) -> Iterator[str]:
    rows = (purse.available_micro, purse.held_micro, purse.held_back_micro, purse.claimable_micro)
    if min(rows) < 0:
        yield f"{purse.account_id} has a negative balance"
    if rows != (
        purse.entries_available_micro,
        purse.entries_held_micro,
        purse.entries_held_back_micro,
        purse.entries_claimable_micro,
    ):
        yield f"{purse.account_id} has balances {rows} that its entries do not explain"
    if (purse.earned_micro, purse.fee_micro, purse.paid_micro) != (
        purse.entries_earned_micro,
        purse.entries_fee_micro,
        purse.payouts_micro,
    ):
        yield f"{purse.account_id} has sums of rewards or payouts that its rows do not explain"
    if purse.claimable_micro + purse.paid_micro != purse.set_aside_micro:
        yield (
            f"{purse.account_id} has {purse.claimable_micro} claimable and {purse.paid_micro} "
            f"paid, but {purse.set_aside_micro} were set aside for it"
        )
    if purse.assigned_micro != purse.roots_micro or purse.assigned_micro > purse.claimable_micro:
        yield (
            f"{purse.account_id} has {purse.assigned_micro} assigned to contracts, but"
            f" {purse.roots_micro} in roots and {purse.claimable_micro} claimable"
        )
    if purse.counted_earned_micro > purse.earned_micro or purse.counted_fee_micro > purse.fee_micro:
        yield f"closed epochs have counted more rewards than {purse.account_id} got"


def _size(spans: Spans) -> int:
    return sum(end - start for start, end in spans)
