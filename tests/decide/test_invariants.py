"""Each sentence of the invariants: a truth that holds is silent, and one thing wrong is named."""

from typing import Any

import pytest
from msgspec.structs import replace

from potluck.decide.invariants import (
    ArrayFact,
    AttemptFact,
    DeviceFact,
    InvariantSnapshot,
    NodeFact,
    PurseFact,
    TaskFact,
    check_invariants,
)
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState

TASK = TaskFact("task_1", TaskState.RUNNING, None, live=1, accepted=0, waits_for=0, dependencies=0)
# Ten items: two wait, three succeeded, one failed for good, four are with two attempts.
ARRAY = ArrayFact(
    items=10,
    allow_failures=1,
    pending=((8, 10),),
    failed=((3, 4),),
    remaining=(((4, 6),), ((6, 8),)),
    items_succeeded=3,
    items_failed=1,
)
ATTEMPT = AttemptFact(
    "attempt_1",
    AttemptState.RUNNING,
    hold_micro=100,
    charge_micro=0,
    held_micro=100,
    charged_micro=0,
    held_back_micro=0,
    entries_held_back_micro=0,
    lives=1,
    settled=0,
)
NODE = NodeFact("node_1", 2, 3, 4, 2, 3, 4)
DEVICE = DeviceFact("device_1", 500, 7, 500, 7, accounts=1, may_serve_several=False)
PURSE = PurseFact("account_1", 900, 100, 50, 900, 100, 50)


def array(**changes: Any) -> TaskFact:
    return replace(TASK, live=2, array=replace(ARRAY, **changes))


def done(state: TaskState, reason: EndReason, failed: int, **changes: Any) -> TaskFact:
    """An array whose items have all come to an end."""
    return replace(
        TASK,
        state=state,
        reason=reason,
        live=0,
        array=replace(
            ARRAY,
            pending=(),
            remaining=(),
            failed=((10 - failed, 10),) if failed else (),
            items_succeeded=10 - failed,
            items_failed=failed,
            **changes,
        ),
    )


GOOD: list[InvariantSnapshot] = [
    InvariantSnapshot(
        tasks=(TASK,), attempts=(ATTEMPT,), nodes=(NODE,), devices=(DEVICE,), purses=(PURSE,)
    ),
    InvariantSnapshot(tasks=(array(),)),
    InvariantSnapshot(tasks=(done(TaskState.SUCCEEDED, EndReason.COMPLETED, 1),)),
    InvariantSnapshot(tasks=(done(TaskState.FAILED, EndReason.ITEMS_FAILED, 2),)),
    # Called off: what was left is nobody's any more.
    InvariantSnapshot(tasks=(replace(array(), state=TaskState.CANCELLED, live=0),)),
    # All items are done, and the attempt that did the last has not said that it is over.
    InvariantSnapshot(
        tasks=(replace(done(TaskState.RUNNING, EndReason.COMPLETED, 0), reason=None, live=1),)
    ),
    InvariantSnapshot(
        tasks=(replace(TASK, history=(TaskState.QUEUED, TaskState.ASSIGNED, TASK.state)),)
    ),
    # Lost and taken back: what its first life came to is settled.
    InvariantSnapshot(attempts=(replace(ATTEMPT, lives=2, settled=1),)),
    InvariantSnapshot(devices=(replace(DEVICE, accounts=2, may_serve_several=True),)),
]

BAD: dict[str, InvariantSnapshot] = {
    "live attempts": InvariantSnapshot(tasks=(replace(TASK, live=2),)),
    "0 live attempts": InvariantSnapshot(tasks=(replace(TASK, live=0),)),
    "1 live attempts": InvariantSnapshot(tasks=(replace(TASK, state=TaskState.QUEUED),)),
    "accepted results": InvariantSnapshot(
        tasks=(replace(TASK, state=TaskState.SUCCEEDED, live=0),)
    ),
    "waits for 1": InvariantSnapshot(tasks=(replace(TASK, waits_for=1),)),
    "does not begin in the queue": InvariantSnapshot(
        tasks=(replace(TASK, history=(TaskState.RUNNING,)),)
    ),
    "its events end with": InvariantSnapshot(tasks=(replace(TASK, history=(TaskState.QUEUED,)),)),
    "went from": InvariantSnapshot(
        tasks=(replace(TASK, history=(TaskState.QUEUED, TaskState.SUCCEEDED, TaskState.RUNNING)),)
    ),
    "in two places": InvariantSnapshot(tasks=(array(pending=((7, 10),)),)),
    "of which 9 are somewhere": InvariantSnapshot(tasks=(array(pending=((8, 9),)),)),
    "of which 11 are somewhere": InvariantSnapshot(tasks=(array(items_succeeded=4),)),
    "10 items, of which 10": InvariantSnapshot(tasks=(array(pending=((9, 11),)),)),
    "counts 2 of 1": InvariantSnapshot(tasks=(array(items_failed=2),)),
    "is running with 0": InvariantSnapshot(tasks=(replace(array(), live=0),)),
    "succeeded with": InvariantSnapshot(tasks=(done(TaskState.SUCCEEDED, EndReason.COMPLETED, 2),)),
    "failed with": InvariantSnapshot(tasks=(done(TaskState.FAILED, EndReason.ITEMS_FAILED, 1),)),
    "all its items are done": InvariantSnapshot(
        tasks=(replace(done(TaskState.QUEUED, EndReason.COMPLETED, 0), reason=None),)
    ),
    "99 is held for it": InvariantSnapshot(attempts=(replace(ATTEMPT, held_micro=99),)),
    "is held for it": InvariantSnapshot(attempts=(replace(ATTEMPT, state=AttemptState.LOST),)),
    "was charged": InvariantSnapshot(
        attempts=(
            replace(ATTEMPT, state=AttemptState.FAILED, held_micro=0, charge_micro=5, settled=1),
        )
    ),
    "settled already": InvariantSnapshot(attempts=(replace(ATTEMPT, settled=1),)),
    "its attempts reserved": InvariantSnapshot(nodes=(replace(NODE, used_cores=3),)),
    "in use of": InvariantSnapshot(devices=(replace(DEVICE, used_memory_bytes=8),)),
    "thousandths": InvariantSnapshot(
        devices=(replace(DEVICE, used_milli=1001, reserved_milli=1001),)
    ),
    "serves 2 accounts": InvariantSnapshot(devices=(replace(DEVICE, accounts=2),)),
    "all entries sum to": InvariantSnapshot(entries_sum_micro=1),
    "negative": InvariantSnapshot(purses=(replace(PURSE, held_micro=-1, entries_held_micro=-1),)),
    "do not explain": InvariantSnapshot(purses=(replace(PURSE, available_micro=901),)),
}


@pytest.mark.parametrize("snapshot", GOOD, ids=range(len(GOOD)))
def test_valid_snapshots_have_no_violations(snapshot: InvariantSnapshot) -> None:
    assert check_invariants(snapshot) == []


@pytest.mark.parametrize("sentence", BAD)
def test_each_violation_is_named(sentence: str) -> None:
    violations = check_invariants(BAD[sentence])
    assert any(sentence in violation for violation in violations), violations
