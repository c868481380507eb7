"""The state machines of tasks and attempts, as transition tables."""

from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, NodeFault, TaskState
from potluck.model.terms import TaskKind

TASK_TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    TaskState.QUEUED: frozenset(
        # To running: a lost attempt that ran was adopted again. To succeeded: a call stream that
        # had nothing left to do was closed.
        {
            TaskState.ASSIGNED,
            TaskState.RUNNING,
            TaskState.SUCCEEDED,
            TaskState.CANCELLED,
            TaskState.EXPIRED,
        }
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
    # Adopted: its lease had expired, and its work was not granted again.
    AttemptState.LOST: frozenset({AttemptState.GRANTED, AttemptState.RUNNING}),
}


def is_nodes_fault(
    reason: EndReason, *, kind: TaskKind, is_reclaimable: bool, is_available: bool
) -> bool:
    """Whether a loss counts against the node.

    An owner may reclaim a device if the terms said so; a node that drops work and still accepts
    more is at fault. Work that was never fetched while the node was available counts too, or a node
    that never polls would be given work for ever. Missing images do not count, because only the
    node knows which images it has and accepts.
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
    """Whether the exit status is possible with the reason."""
    if reason is EndReason.COMPLETED:
        return exit_code == 0
    return reason is not EndReason.EXIT_STATUS or exit_code not in (None, 0)


def task_may_become(before: TaskState, after: TaskState) -> bool:
    return after in TASK_TRANSITIONS[before]


def attempt_may_become(before: AttemptState, after: AttemptState) -> bool:
    return after in ATTEMPT_TRANSITIONS[before]
