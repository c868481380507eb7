"""What many attempts used, all together."""

from functools import reduce

from potluck.consumer.tasks import Tasks
from potluck.model.usage import Usage


def usage_in_all(tasks: Tasks, task_id: str) -> Usage | None:
    """Sums, and of the memory the highest peak; None if no attempt has told anything."""
    found: list[Usage] = []
    cursor: int | None = None
    while True:
        page = tasks.attempts(task_id, cursor)
        found += [each.usage for each in page.attempts if each.usage is not None]
        cursor = page.next_cursor
        if cursor is None:
            return reduce(_both, found) if found else None


def _both(one: Usage, other: Usage) -> Usage:
    joules = [each.energy_joules for each in (one, other) if each.energy_joules is not None]
    return Usage(
        one.prepare_seconds + other.prepare_seconds,
        one.run_seconds + other.run_seconds,
        one.cpu_seconds + other.cpu_seconds,
        max(one.memory_peak_bytes, other.memory_peak_bytes),
        one.log_bytes + other.log_bytes,
        one.device_seconds + other.device_seconds,
        sum(joules) if joules else None,
        one.input_bytes + other.input_bytes,
        one.output_bytes + other.output_bytes,
    )
