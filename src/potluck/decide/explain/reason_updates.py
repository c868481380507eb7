"""Tracks which task groups have a new waiting reason since the last report.

Counting refusals checks every kind of node, so a round counts only a few shapes, and each shape at
most once in a few seconds. A group whose reason stays the same is not reported again. When nodes
have come or gone, all groups that wait for capacity are counted again.
"""

from collections.abc import Callable
from itertools import islice

from msgspec import Struct

from potluck.decide.explain.sentences import IN_LINE
from potluck.decide.queue.task_groups import BlockReason, GroupKey, TaskGroup, TaskGroups
from potluck.decide.types import WaitingTask
from potluck.model.task import WaitingReason

MOST_COUNTS = 4
MOST_GROUPS = 50


class WaitingUpdate(Struct, frozen=True):
    """Why a task group waits, and one of its tasks."""

    example: WaitingTask
    reason: WaitingReason


class _CountedReason(Struct, frozen=True):
    reason: WaitingReason
    at: float


class ReasonUpdates:
    def __init__(
        self,
        groups: TaskGroups,
        count: Callable[[WaitingTask, BlockReason], WaitingReason],
        fresh_seconds: float,
    ) -> None:
        self._groups = groups
        self._count = count
        self._fresh_seconds = fresh_seconds
        self._fresh: dict[TaskGroup, None] = {}  # blocked since the last report, in order
        self._reported: dict[GroupKey, WaitingReason] = {}
        self._counted: dict[object, _CountedReason] = {}
        self._emptied: dict[GroupKey, None] = {}
        self._is_stale = False
        self._renewed_at = 0.0

    def note(self, group: TaskGroup) -> None:
        self._fresh[group] = None

    def forget(self, group: TaskGroup) -> None:
        self._fresh.pop(group, None)
        if self._reported.pop(group.key, None) is not None:
            self._emptied[group.key] = None

    def mark_stale(self) -> None:
        """Nodes have come or gone since reasons were counted."""
        self._is_stale = True

    @property
    def is_done(self) -> bool:
        """Whether every known change was reported."""
        return not self._fresh

    def code_of(self, group: TaskGroup) -> str:
        """The code of its latest reason, or what blocks it if that was not counted yet."""
        reported = self._reported.get(group.key)
        if group.block_reason is BlockReason.NONE:
            return IN_LINE.code
        return group.block_reason.value if reported is None else reported.code

    def take_emptied(self) -> tuple[GroupKey, ...]:
        """The groups that had a reason and are empty now."""
        emptied, self._emptied = tuple(self._emptied), {}
        return emptied

    def take_changed(self, now: float) -> dict[GroupKey, WaitingUpdate]:
        """The groups whose reason has changed."""
        self._renew(now)
        changed: dict[GroupKey, WaitingUpdate] = {}
        counts = MOST_COUNTS
        for group in list(islice(self._fresh, MOST_GROUPS)):
            entry = self._groups.first(group)
            if entry is None or group.block_reason is BlockReason.NONE:
                del self._fresh[group]
                continue
            reason = self._cached_reason(group, now)
            if reason is None:
                if not counts:
                    # To the end: the others come first next time.
                    self._fresh[group] = self._fresh.pop(group)
                    continue
                counts -= 1
                reason = self._look(group, entry[2], now)
            del self._fresh[group]
            if self._reported.get(group.key) != reason:
                self._reported[group.key] = reason
                changed[group.key] = WaitingUpdate(entry[2], reason)
        return changed

    def _renew(self, now: float) -> None:
        if self._is_stale and now - self._renewed_at >= self._fresh_seconds:
            self._is_stale = False
            self._renewed_at = now
            self._counted.clear()
            for group in self._groups.groups():
                if group.block_reason is BlockReason.NO_CAPACITY:
                    self.note(group)

    def _cached_reason(self, group: TaskGroup, now: float) -> WaitingReason | None:
        counted = self._counted.get(_kind(group))
        is_fresh = counted is not None and now - counted.at < self._fresh_seconds
        return counted.reason if counted is not None and is_fresh else None

    def _look(self, group: TaskGroup, task: WaitingTask, now: float) -> WaitingReason:
        if len(self._counted) > 10_000:
            self._counted.clear()
        reason = self._count(task, group.block_reason)
        self._counted[_kind(group)] = _CountedReason(reason, now)
        return reason


def _kind(group: TaskGroup) -> object:
    """Groups of one shape share their reason; credit and quota concern one account."""
    if group.block_reason.is_of_account:
        return (group.block_reason, group.key)
    return (group.block_reason, group.shape)
