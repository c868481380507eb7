"""Tracks which task groups have a new waiting reason since the last report.

Counting refusals checks every kind of node, so a round counts only a few shapes, and each shape at
most once in a few seconds. A group whose reason stays the same is not reported again. When nodes
have come or gone, all groups that wait for capacity are counted again.
"""

from collections.abc import Callable
from itertools import islice

from msgspec import Struct

from potluck.decide.queue.task_groups import (
    Halt,
    LineKey,
    Lines,
    TaskGroup,
)
from potluck.decide.types import WaitingTask
from potluck.model.task import WaitingReason

MOST_COUNTS = 4
MOST_LINES = 50


class Waiting(Struct, frozen=True):
    """Why a task group waits, and one of its tasks."""

    example: WaitingTask
    reason: WaitingReason


class _CountedReason(Struct, frozen=True):
    reason: WaitingReason
    at: float


class ReasonUpdates:
    def __init__(
        self,
        lines: Lines,
        count: Callable[[WaitingTask, Halt], WaitingReason],
        fresh_seconds: float,
    ) -> None:
        self._lines = lines
        self._count = count
        self._fresh_seconds = fresh_seconds
        self._fresh: dict[TaskGroup, None] = {}  # blocked since the last report, in order
        self._told: dict[LineKey, WaitingReason] = {}
        self._counted: dict[object, _CountedReason] = {}
        self._emptied: dict[LineKey, None] = {}
        self._is_doubted = False
        self._renewed_at = 0.0

    def note(self, line: TaskGroup) -> None:
        self._fresh[line] = None

    def forget(self, line: TaskGroup) -> None:
        self._fresh.pop(line, None)
        if self._told.pop(line.key, None) is not None:
            self._emptied[line.key] = None

    def doubt(self) -> None:
        """Nodes have come or gone since reasons were counted."""
        self._is_doubted = True

    @property
    def is_done(self) -> bool:
        """Whether every known change was reported."""
        return not self._fresh

    def take_emptied(self) -> tuple[LineKey, ...]:
        """The groups that had a reason and are empty now."""
        emptied, self._emptied = tuple(self._emptied), {}
        return emptied

    def tell(self, now: float) -> dict[LineKey, Waiting]:
        """The groups whose reason has changed."""
        self._renew(now)
        news: dict[LineKey, Waiting] = {}
        counts = MOST_COUNTS
        for line in list(islice(self._fresh, MOST_LINES)):
            entry = self._lines.first(line)
            if entry is None or line.halt is Halt.NONE:
                del self._fresh[line]
                continue
            known = self._known(line, now)
            if known is None:
                if not counts:
                    # To the end: the others come first next time.
                    self._fresh[line] = self._fresh.pop(line)
                    continue
                counts -= 1
                known = self._look(line, entry[2], now)
            del self._fresh[line]
            if self._told.get(line.key) != known:
                self._told[line.key] = known
                news[line.key] = Waiting(entry[2], known)
        return news

    def _renew(self, now: float) -> None:
        if self._is_doubted and now - self._renewed_at >= self._fresh_seconds:
            self._is_doubted = False
            self._renewed_at = now
            self._counted.clear()
            for line in self._lines.lines():
                if line.halt is Halt.ROOM:
                    self.note(line)

    def _known(self, line: TaskGroup, now: float) -> WaitingReason | None:
        counted = self._counted.get(_kind(line))
        is_fresh = counted is not None and now - counted.at < self._fresh_seconds
        return counted.reason if counted is not None and is_fresh else None

    def _look(self, line: TaskGroup, task: WaitingTask, now: float) -> WaitingReason:
        if len(self._counted) > 10_000:
            self._counted.clear()
        reason = self._count(task, line.halt)
        self._counted[_kind(line)] = _CountedReason(reason, now)
        return reason


def _kind(line: TaskGroup) -> object:
    """Groups of one shape share their reason; credit and quota concern one account."""
    if line.halt.is_of_account:
        return (line.halt, line.key)
    return (line.halt, line.shape)
