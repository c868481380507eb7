"""The two state machines, as data: what may follow what. What ends mean is in their facts."""

from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, NodeFault, TaskState
from potluck.model.terms import TaskKind

TASK_TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.QUEUED: frozenset(
        # Running at once: a lost attempt that ran was taken back.
        {TaskState.ASSIGNED, TaskState.RUNNING, TaskState.CANCELLED, TaskState.EXPIRED}
    ),
    TaskState.ASSIGNED: frozenset(
        {
            TaskState.RUNNING,
            TaskState.QUEUED,
            TaskState.SUCCEEDED,
            TaskState.FAILED,
            TaskState.CANCELLED,
        }
    ),
    TaskState.RUNNING: frozenset(
        {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.CANCELLED, TaskState.QUEUED}
    ),
    TaskState.SUCCEEDED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.CANCELLED: frozenset(),
    TaskState.EXPIRED: frozenset(),
}

ATTEMPT_TRANSITIONS: dict[AttemptState, frozenset[AttemptState]] = {
    AttemptState.GRANTED: frozenset(AttemptState) - {AttemptState.GRANTED},
    AttemptState.PREPARING: frozenset(AttemptState)
    - {AttemptState.GRANTED, AttemptState.PREPARING},
    AttemptState.RUNNING: frozenset(
        {AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.CANCELLED, AttemptState.LOST}
    ),
    AttemptState.SUCCEEDED: frozenset(),
    AttemptState.FAILED: frozenset(),
    AttemptState.CANCELLED: frozenset(),
    # Taken back: its lease ran out, and nobody else has been given its work.
    AttemptState.LOST: frozenset({AttemptState.GRANTED, AttemptState.RUNNING}),
}


def is_nodes_fault(
    reason: EndReason, *, kind: TaskKind, is_reclaimable: bool, is_available: bool
) -> bool:
    """Whether a loss is held against the node, whose devices may take no new work by now.

    An owner who said before that he may want a device back may have it, if he does want it: one
    that throws work away and asks for more is at fault. What was never fetched though all was open
    is held against a node too: one that never asks for work would be given it for ever. But
    which images a node has and takes, only the node knows.
    """
    match reason.facts.node_fault:
        case NodeFault.UNLESS_AGREED:
            return is_available or not is_reclaimable
        case NodeFault.IF_OPEN:
            return is_available
        case NodeFault.UNLESS_IMAGE:
            return kind is not TaskKind.CONTAINER
        case NodeFault.YES | NodeFault.NO as fault:
            return fault is NodeFault.YES


def is_consistent(reason: EndReason, exit_code: int | None) -> bool:
    """Whether an exit status can go with that reason."""
    if reason is EndReason.COMPLETED:
        return exit_code == 0
    return reason is not EndReason.EXIT_STATUS or exit_code not in (None, 0)


def task_may_become(before: TaskState, after: TaskState) -> bool:
    return after in TASK_TRANSITIONS[before]


def attempt_may_become(before: AttemptState, after: AttemptState) -> bool:
    return after in ATTEMPT_TRANSITIONS[before]
