"""Who is served first: the higher priority, then who came first (ids sort by time)."""

from collections.abc import Iterable

from potluck.decide.snapshot import WaitingTask


def in_order(tasks: Iterable[WaitingTask]) -> list[WaitingTask]:
    return sorted(tasks, key=lambda task: (-task.priority, task.id))
