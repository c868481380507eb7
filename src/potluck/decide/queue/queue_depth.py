"""How many tasks wait, and for how long, by priority and waiting reason."""

from collections.abc import Callable

from msgspec import Struct

from potluck.decide.queue.task_groups import TaskGroup, TaskGroups


class QueueDepth(Struct):
    tasks: int
    oldest_at: float  # the submission of the first of them


def measure_queue(
    groups: TaskGroups, code_of: Callable[[TaskGroup], str]
) -> dict[tuple[int, str], QueueDepth]:
    """Takes time for each group, not for each task: its first task stands for its age."""
    depths: dict[tuple[int, str], QueueDepth] = {}
    for group in groups.groups():
        entry = groups.first(group)
        if entry is None:
            continue
        key = group.key.priority, code_of(group)
        depth = depths.setdefault(key, QueueDepth(0, entry[2].submitted_at))
        depth.tasks += groups.count(group)
        depth.oldest_at = min(depth.oldest_at, entry[2].submitted_at)
    return depths
