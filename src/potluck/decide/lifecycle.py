"""The two state machines, as data: what may follow what, and what each end reason means."""

from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, TaskState
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

# The total map from the reason of an end to the state of the attempt that ended so.
ATTEMPT_STATE_AFTER: dict[EndReason, AttemptState] = {
    EndReason.COMPLETED: AttemptState.SUCCEEDED,
    EndReason.EXIT_STATUS: AttemptState.FAILED,
    EndReason.EXCEPTION: AttemptState.FAILED,
    EndReason.SIGNAL: AttemptState.FAILED,
    EndReason.MEMORY_LIMIT: AttemptState.FAILED,
    EndReason.PROCESS_LIMIT: AttemptState.FAILED,
    EndReason.DISK_LIMIT: AttemptState.FAILED,
    EndReason.LOG_LIMIT: AttemptState.FAILED,
    EndReason.TIME_LIMIT: AttemptState.FAILED,
    EndReason.INPUT_FAILED: AttemptState.FAILED,
    EndReason.PREPARE_FAILED: AttemptState.FAILED,
    EndReason.PREPARE_TIME_LIMIT: AttemptState.FAILED,
    EndReason.SANDBOX_FAILED: AttemptState.LOST,
    EndReason.LEASE_EXPIRED: AttemptState.LOST,
    EndReason.NODE_RESTARTED: AttemptState.LOST,
    EndReason.NODE_LEFT: AttemptState.LOST,
    EndReason.DEVICE_LOST: AttemptState.LOST,
    EndReason.RECLAIMED: AttemptState.LOST,
    EndReason.DECLINED: AttemptState.LOST,
    EndReason.WITHDRAWN: AttemptState.LOST,
    EndReason.CANCELLED: AttemptState.CANCELLED,
    EndReason.DEADLINE: AttemptState.CANCELLED,
    EndReason.DEPENDENCY: AttemptState.CANCELLED,
    EndReason.SILENCE: AttemptState.LOST,
    EndReason.ITEMS_FAILED: AttemptState.FAILED,
    EndReason.POISON: AttemptState.LOST,
    EndReason.SPEC_UNREADABLE: AttemptState.FAILED,
    EndReason.TOO_MANY_LOSSES: AttemptState.LOST,
}

# What a node itself may say about an end; the rest is for the server to conclude.
REPORTABLE = frozenset(
    {
        EndReason.COMPLETED,
        EndReason.EXIT_STATUS,
        EndReason.EXCEPTION,
        EndReason.SIGNAL,
        EndReason.MEMORY_LIMIT,
        EndReason.PROCESS_LIMIT,
        EndReason.DISK_LIMIT,
        EndReason.LOG_LIMIT,
        EndReason.TIME_LIMIT,
        EndReason.INPUT_FAILED,
        EndReason.PREPARE_FAILED,
        EndReason.PREPARE_TIME_LIMIT,
        EndReason.SANDBOX_FAILED,
        EndReason.NODE_RESTARTED,
        EndReason.NODE_LEFT,
        EndReason.DEVICE_LOST,
        EndReason.RECLAIMED,
        EndReason.DECLINED,
        EndReason.SILENCE,
    }
)

# What a node may say about one item of an array. The rest concerns the range as a whole.
ITEM_REPORTABLE = frozenset(
    {
        EndReason.COMPLETED,
        EndReason.EXIT_STATUS,
        EndReason.EXCEPTION,
        EndReason.SIGNAL,
        EndReason.MEMORY_LIMIT,
        EndReason.PROCESS_LIMIT,
        EndReason.DISK_LIMIT,
        EndReason.LOG_LIMIT,
        EndReason.TIME_LIMIT,
    }
)

# The node had no part in this: the server was silent.
NOT_THE_NODES_FAULT = frozenset({EndReason.SILENCE})


def is_nodes_fault(
    reason: EndReason, *, kind: TaskKind, is_reclaimable: bool, is_available: bool
) -> bool:
    """Whether a loss is held against the node, whose devices may take no new work by now.

    An owner who said before that he may want a device back may have it, if he does want it: one
    that throws work away and asks for more is at fault. What was never fetched though all was open
    is held against a node too: one that never asks for work would be given it for ever. But
    which images a node has and takes, only the node knows.
    """
    match reason:
        case EndReason.RECLAIMED:
            return is_available or not is_reclaimable
        case EndReason.WITHDRAWN:
            return is_available
        case EndReason.DECLINED:
            return kind is not TaskKind.CONTAINER
    return reason not in NOT_THE_NODES_FAULT


def is_consistent(reason: EndReason, exit_code: int | None) -> bool:
    """Whether an exit status can go with that reason."""
    if reason is EndReason.COMPLETED:
        return exit_code == 0
    return reason is not EndReason.EXIT_STATUS or exit_code not in (None, 0)


def task_may_become(before: TaskState, after: TaskState) -> bool:
    return after in TASK_TRANSITIONS[before]


def attempt_may_become(before: AttemptState, after: AttemptState) -> bool:
    return after in ATTEMPT_TRANSITIONS[before]
