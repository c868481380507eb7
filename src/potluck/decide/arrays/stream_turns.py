"""Chooses which standing attempts on call streams are released because others wait.

An attempt keeps its device for a turn while calls come, and not longer than a moment while none do.
For each group of waiting tasks one attempt at a time is released, on a node where the group could
run: the one that had its device for the longest time. What follows is the scheduler's decision, by
the share of each account; the stream itself waits for it like any array.
"""

from collections.abc import Sequence

from msgspec import Struct

from potluck.model.ids import AttemptId, NodeId, TaskId

# A stream without calls for this long has nothing to do; between two calls of a loop it has not.
IDLE_SECONDS = 0.05


class StandingAttempt(Struct, frozen=True):
    """A live attempt on a call stream."""

    id: AttemptId
    task_id: TaskId
    node_id: NodeId
    turn_seconds: float  # since it was assigned
    idle_seconds: float  # since its last call was done; 0 while it has one
    is_released: bool


class WantedNodes(Struct, frozen=True):
    """A group of tasks that waits for capacity, and where it could run."""

    task_id: TaskId  # the first of them; an array is a group of its own
    node_ids: frozenset[NodeId]


class ReleasePlan(Struct, frozen=True):
    attempts: tuple[AttemptId, ...]
    look_again_seconds: float | None  # when one more may be due; None if none can be


def plan_releases(
    standing: Sequence[StandingAttempt], wanted: Sequence[WantedNodes], turn_seconds: float
) -> ReleasePlan:
    released: dict[AttemptId, None] = {}
    waits: list[float] = []
    for group in wanted:
        candidates = [
            attempt
            for attempt in standing
            if attempt.node_id in group.node_ids and attempt.task_id != group.task_id
        ]
        if not candidates:
            continue
        if any(attempt.is_released or attempt.id in released for attempt in candidates):
            waits.append(turn_seconds)  # it frees a device soon
            continue
        rest, first = min((_rest_seconds(each, turn_seconds), each.id) for each in candidates)
        if rest <= 0:
            released[first] = None
        waits.append(max(rest, IDLE_SECONDS))
    return ReleasePlan(tuple(released), min(waits, default=None))


def _rest_seconds(attempt: StandingAttempt, turn_seconds: float) -> float:
    """How long it may stay."""
    rest = turn_seconds - attempt.turn_seconds
    if attempt.idle_seconds:
        return min(rest, IDLE_SECONDS - attempt.idle_seconds)
    return rest
