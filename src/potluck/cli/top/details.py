"""The details of a task or a device, and the output of a task, as lines."""

from datetime import datetime
from typing import TYPE_CHECKING

from potluck.cli.gpus.device_text import device_name, part_text, pool_state_cell, price_text
from potluck.cli.tasks.items import describe_counts
from potluck.cli.tasks.task_text import (
    describe_cost,
    describe_place,
    describe_reason,
    duration_seconds,
    last_attempt,
    ran_seconds,
)
from potluck.cli.terminal.screen import Tone, printable
from potluck.cli.terminal.table import Cell
from potluck.model.ids import TaskId
from potluck.model.units import show_age, show_bytes, show_milli, show_seconds
from potluck.wire.consumer import AttemptView, LogPage, PoolDevice, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


Lines = list[list[Cell]]


def task_details(task: TaskView, now: datetime) -> Lines:
    ran = duration_seconds(task, now)
    limit = task.limits.run_seconds
    facts = {
        "task": f"{task.name} ({task.id})",
        "state": task.phase,
        "why": describe_reason(task),
        "exit status": "" if task.exit_code is None else str(task.exit_code),
        "items": "" if task.items is None else describe_counts(task.items),
        "submitted": f"{task.created_at.astimezone():%Y-%m-%d %H:%M:%S},"
        f" {show_age(task.created_at, now)} ago",
        "ran": "" if ran is None else f"{show_seconds(ran)}, at most {show_seconds(limit)}",
        "cost": describe_cost(task),
        "after": ", ".join(task.after),
    }
    attempts = [[Cell(_attempt_text(attempt))] for attempt in reversed(task.attempts)]
    return [*_fact_lines(facts), [], [Cell("Attempts, newest first:", Tone.FAINT)], *attempts]


def _attempt_text(attempt: AttemptView) -> str:
    ran = ran_seconds(attempt)
    parts = [f"{attempt.number}. {attempt.state} on {describe_place(attempt)}"]
    parts += [] if ran is None else [f"after {show_seconds(ran)}"]
    parts += [attempt.detail] if attempt.detail else []
    return ": ".join(parts)


def device_details(device: PoolDevice) -> Lines:
    description, sample = device.description, device.sample
    heat = None if sample is None else sample.temperature_celsius
    facts = {
        "device": f"{device_name(description)} ({device.id})",
        "node": f"{device.node_name} ({device.node_id})",
        "state": pool_state_cell(device).text,
        "why": device.why,
        "free": f"{show_milli(device.free_milli)} of it,"
        f" {part_text(device.free_memory_bytes, description.offered_bytes)} of memory",
        "memory": show_bytes(description.memory_bytes),
        "price": f"{price_text(description.terms.price_micro_per_hour)} an hour",
        "reliability": f"{int(device.reliability * 100)} %",
        "heat": "" if heat is None else f"{heat:.0f} °C",
        "labels": " ".join(device.labels),
        "interface": " ".join(filter(None, (description.interface, description.driver))),
        "serves": ", ".join(use.task_id or "another account's task" for use in device.uses),
    }
    return _fact_lines(facts)


def _fact_lines(facts: dict[str, str]) -> Lines:
    shown = {name: value for name, value in facts.items() if value}
    width = max(map(len, shown)) + 2
    return [[Cell(name.ljust(width), Tone.FAINT), Cell(value)] for name, value in shown.items()]


def log_lines(pages: list[LogPage]) -> Lines:
    """Shows of each line only the text after its last carriage return, like a terminal."""
    data = b"".join(piece.data for page in pages for piece in page.pieces)
    texts = data.decode("utf-8", "replace").splitlines()
    lines = [
        [Cell(printable(text.rstrip("\r").rpartition("\r")[2].expandtabs()))] for text in texts
    ]
    return lines or [[Cell("No output yet.", Tone.FAINT)]]


_MOST_PAGES = 50


class TaskLogReader:
    """The log of the attempt that was the newest at the first call.

    Later calls fetch only new pages. Not thread-safe.
    """

    def __init__(self, potluck: "Potluck", task_id: TaskId):
        self._potluck = potluck
        self._task_id = task_id
        self._attempt: int | None = None
        self._offset = 0
        self._pages: list[LogPage] = []

    def lines(self) -> Lines:
        # Every call names the attempt, because offsets differ between attempts.
        if self._attempt is None:
            newest = last_attempt(self._potluck.tasks.get(self._task_id))
            self._attempt = None if newest is None else newest.number
        while self._attempt is not None and self._read_page(self._attempt):
            pass
        return log_lines(self._pages)

    def _read_page(self, attempt: int) -> bool:
        page = self._potluck.tasks.logs(self._task_id, attempt, self._offset)
        if page.next_offset <= self._offset:
            return False
        self._pages = [*self._pages, page][-_MOST_PAGES:]
        self._offset = page.next_offset
        return True
