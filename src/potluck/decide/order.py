"""Who is served first: the higher priority, then who has waited longer."""

from collections.abc import Iterable

from potluck.decide.snapshot import WaitingTask


def in_order(tasks: Iterable[WaitingTask]) -> list[WaitingTask]:
    return sorted(tasks, key=lambda task: (-task.priority, task.queued_at, task.id))
