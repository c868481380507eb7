"""Grants tasks ahead: to a node that runs a short task, the next ones of the same line.

A line is a share of a node that attempts of one account, with equal requirements and of one kind,
hold one after the other. A task is granted ahead only if it would get the share if that were free
now: no other waiting task that could use the node comes before it, and no reservation forbids it.
If others wait for the node behind it, the line gets one at a time. Granted ahead is at most about a
second of work, so a task that comes later waits no longer than that. A task that was given back
once is not granted ahead again.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Set

from msgspec import Struct

from potluck.decide.account import SchedulerAccount
from potluck.decide.charges import SettleTimes, hold_micro
from potluck.decide.order.interface import OrderPolicy, Turn
from potluck.decide.pool.suitable_devices import Suitability
from potluck.decide.queue.blocked import BlockedGroups
from potluck.decide.queue.task_groups import BlockReason, TaskGroup, TaskGroups
from potluck.decide.reservations.reserve import Reservations
from potluck.decide.types import RunningAttempt, WaitingTask
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.task import Requirements
from potluck.model.terms import TaskKind

AHEAD_SECONDS = 1.0
# In one line. A line is filled up when half of it is gone, so that many go in one transaction.
MOST_AHEAD = 24
# Of a moving average over the time that attempts of a line held the share.
_NEWEST_WEIGHT = 0.3
# With more waiting groups than this nothing is granted ahead: to compare them takes time.
_MOST_GROUPS = 200
_REMEMBERED = 10_000
_MOST_TRIES = 3
_KINDS = {TaskKind.SCRIPT.value, TaskKind.COMMAND.value}

LineKey = tuple[AccountId, Requirements, str]


class GrantAhead(Struct, frozen=True, gc=False):
    """Tasks for the line of the attempt that holds the share, in order."""

    holder: RunningAttempt
    tasks: tuple[WaitingTask, ...]
    hold_micro: int  # for each


class Lines:
    """The attempts that hold shares, by what they are alike in, and how many wait behind them."""

    def __init__(self) -> None:
        self._holders: dict[LineKey, dict[AttemptId, tuple[RunningAttempt, float]]] = {}
        self._seconds: dict[LineKey, float] = {}
        self._ahead: dict[NodeId, dict[AttemptId, int]] = {}

    def put(self, attempt: RunningAttempt, now: float) -> None:
        key = _key(attempt)
        if key is not None:
            holders = self._holders.setdefault(key, {})
            since = holders[attempt.id][1] if attempt.id in holders else now
            holders[attempt.id] = (attempt, since)

    def drop(self, attempt: RunningAttempt, now: float) -> None:
        key = _key(attempt)
        holders = {} if key is None else self._holders.get(key, {})
        if key is None or attempt.id not in holders:
            return
        _, since = holders.pop(attempt.id)
        if not holders:
            del self._holders[key]
        seconds = now - since
        before = self._seconds.pop(key, seconds)
        self._seconds[key] = before + _NEWEST_WEIGHT * (seconds - before)
        if len(self._seconds) > _REMEMBERED:
            del self._seconds[next(iter(self._seconds))]

    def set_ahead(self, node_id: NodeId, counts: Mapping[AttemptId, int]) -> None:
        """How many wait behind each line of a node, by the first attempt of the line."""
        if counts:
            self._ahead[node_id] = dict(counts)
        else:
            self._ahead.pop(node_id, None)

    def add_ahead(self, holder: RunningAttempt, count: int) -> None:
        counts = self._ahead.setdefault(holder.node_id, {})
        first = holder.line or holder.id
        counts[first] = counts.get(first, 0) + count

    def count_ahead(self, holder: RunningAttempt) -> int:
        return self._ahead.get(holder.node_id, {}).get(holder.line or holder.id, 0)

    def holders(self, key: LineKey) -> list[tuple[RunningAttempt, float]]:
        return list(self._holders.get(key, {}).values())

    def seconds(self, key: LineKey, task: WaitingTask) -> float | None:
        """How long such a task takes, as declared or learned."""
        known = (self._seconds.get(key), task.expected_seconds)
        return min((seconds for seconds in known if seconds is not None), default=None)

    def is_any(self) -> bool:
        return bool(self._holders)


class AheadPlanner:
    """Finds tasks to grant ahead, and takes them out of the queue immediately."""

    def __init__(
        self,
        order: OrderPolicy,
        queue: tuple[TaskGroups, BlockedGroups],
        accounts: Mapping[AccountId, SchedulerAccount],
        suitability: Suitability,
        reservations: Reservations,
        settle_times: SettleTimes,
        forget_if_empty: Callable[[TaskGroup], None],
    ) -> None:
        self._forget_if_empty = forget_if_empty
        self.lines = Lines()
        self._order = order
        self._groups, self._blocked = queue
        self._accounts = accounts
        self._suitability = suitability
        self._reservations = reservations
        self._settle_times = settle_times
        self._tries: dict[TaskId, int] = {}

    def plan(self, now: float) -> list[GrantAhead]:
        if not self.lines.is_any():
            return []
        groups = self._ordered(now)
        claimed: set[NodeId] = set()  # by groups that come first
        grants: list[GrantAhead] = []
        for place, group in enumerate(groups):
            grants += self._serve(group, groups[place + 1 :], claimed, now)
            if (entry := self._groups.first(group)) is not None:
                claimed.update(self._suitability.devices(entry[2]))
        return grants

    def _ordered(self, now: float) -> list[TaskGroup]:
        """The groups that wait for capacity, as the order would serve them."""
        groups = [group for group in self._blocked.groups() if self._groups.first(group)]
        if len(groups) > _MOST_GROUPS:
            return []

        def position(group: TaskGroup) -> tuple[object, ...]:
            within, task_id, task = self._groups.first(group) or (0.0, "", None)
            assert task is not None
            turn = Turn(task, self._accounts[task.account_id], now)
            return self._order.between(turn), within, task_id

        return sorted(groups, key=position)

    def _serve(
        self, group: TaskGroup, behind: list[TaskGroup], claimed: set[NodeId], now: float
    ) -> Iterator[GrantAhead]:
        key = group.key
        # What may not use capacity that is reserved for others claims it, but gets nothing ahead.
        is_waiting = group.block_reason is BlockReason.NO_CAPACITY
        if key.array is not None or key.nodes != 1 or not is_waiting:
            return
        line_key = (key.account_id, key.requirements, key.kind)
        for holder, since in self.lines.holders(line_key):
            entry = self._groups.first(group)
            if entry is None:
                return
            task = entry[2]
            if holder.node_id in claimed or holder.node_id in task.failed_on:
                continue
            permits = self._reservations.permission(task, now)
            if permits is not None and not permits(holder.node_id):
                continue
            wanted = self._wanted(holder, since, line_key, task, now)
            if wanted and any(self._is_awaited(other, key.account_id, holder) for other in behind):
                wanted = min(wanted, 1 - self.lines.count_ahead(holder))
            if wanted > 0 and (grant := self._grant(group, holder, wanted)) is not None:
                yield grant

    def _is_awaited(self, group: TaskGroup, account_id: AccountId, holder: RunningAttempt) -> bool:
        entry = self._groups.first(group)
        return (
            entry is not None
            and group.key.account_id != account_id
            and self._suitability.on(entry[2], holder.node_id) is not None
        )

    def _wanted(
        self, holder: RunningAttempt, since: float, key: LineKey, task: WaitingTask, now: float
    ) -> int:
        seconds = self.lines.seconds(key, task)
        # One that takes unusually long may take much longer.
        if seconds is None or seconds > AHEAD_SECONDS or now - since > 2 * AHEAD_SECONDS:
            return 0
        depth = max(1, min(MOST_AHEAD, int(AHEAD_SECONDS / max(seconds, 0.001))))
        if holder.price_micro_per_hour:
            depth = 1
        ahead = self.lines.count_ahead(holder)
        return 0 if ahead > depth // 2 else depth - ahead

    def _grant(self, group: TaskGroup, holder: RunningAttempt, most: int) -> GrantAhead | None:
        tasks: deque[WaitingTask] = deque()
        hold = 0
        while len(tasks) < most and (entry := self._groups.first(group)) is not None:
            task = entry[2]
            if self._tries.get(task.id, 0) >= _MOST_TRIES:
                break
            if holder.price_micro_per_hour:
                seconds = self._settle_times.funded_seconds(task.limits.run_seconds)
                hold = hold_micro(holder.price_micro_per_hour, seconds)
                if hold > self._accounts[task.account_id].available_micro:
                    break
            self._groups.serve(group)
            tasks.append(task)
        if not tasks:
            return None
        self._blocked.reorder(group)
        self._forget_if_empty(group)
        self.lines.add_ahead(holder, len(tasks))
        return GrantAhead(holder, tuple(tasks), hold)

    def note(self, grant: GrantAhead, granted: Set[TaskId]) -> None:
        """A granted one that is in the queue again was given back; one that was refused may be
        tried again, since the attempt before it may have just ended."""
        for task in grant.tasks:
            tries = _MOST_TRIES if task.id in granted else self._tries.pop(task.id, 0) + 1
            self._tries[task.id] = tries
        while len(self._tries) > _REMEMBERED:
            del self._tries[next(iter(self._tries))]


def _key(attempt: RunningAttempt) -> LineKey | None:
    if attempt.requirements is None or attempt.kind not in _KINDS:
        return None
    return attempt.account_id, attempt.requirements, attempt.kind
