"""What runs, and what has just been planned and will run as soon as the database agrees."""

from collections import Counter

from msgspec import Struct

from potluck.decide.account import Account
from potluck.decide.estimate import run_seconds
from potluck.decide.snapshot import Assignment, RunningAttempt, WaitingTask
from potluck.decide.timetable import Timetable
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId


class _Planned(Struct, frozen=True):
    attempt: RunningAttempt
    account: Account
    hold_micro: int


class Running:
    """Counts for its account whatever runs or is planned, each once."""

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._planned: dict[TaskId, list[_Planned]] = {}
        self._live: Counter[TaskId] = Counter()
        self._numbers = 0

    def live(self, task_id: TaskId) -> int:
        """How many attempts at a task run or are planned."""
        return self._live[task_id]

    def expect(self, task: WaitingTask, given: Assignment, account: Account, now: float) -> None:
        """Counts an assignment as running before the database has agreed."""
        self._numbers += 1
        items = 1 if given.items is None else len(given.items)
        attempt = RunningAttempt(
            id=AttemptId(f"planned_{self._numbers}"),
            task_id=task.id,
            account_id=task.account_id,
            node_id=given.node_id,
            shares=given.shares,
            cores=task.requirements.cores,
            memory_bytes=task.requirements.memory_bytes,
            disk_bytes=task.requirements.disk_bytes,
            expected_end=now + run_seconds(task) * items,
        )
        self._planned.setdefault(task.id, []).append(_Planned(attempt, account, given.hold_micro))
        account.planned_micro += given.hold_micro
        self._count(attempt, account, 1)

    def put(self, attempt: RunningAttempt, account: Account) -> None:
        """An attempt that runs; it takes the place of what was planned."""
        known = self._timetable.get(attempt.id)
        if known is not None:
            self._count(known, account, -1)
        else:
            self.cease(attempt.task_id, attempt.node_id)
        self._count(attempt, account, 1)

    def drop(self, attempt_id: AttemptId, account: Account) -> None:
        known = self._timetable.get(attempt_id)
        if known is not None:
            self._count(known, account, -1)

    def cease(self, task_id: TaskId, node_id: NodeId) -> AccountId | None:
        """What was planned for a task on that node is there now, or will never be."""
        planned = self._planned.get(task_id, [])
        found = next((each for each in planned if each.attempt.node_id == node_id), None)
        if found is None:
            return None
        planned.remove(found)
        if not planned:
            del self._planned[task_id]
        found.account.planned_micro -= found.hold_micro
        self._count(found.attempt, found.account, -1)
        return found.account.id

    def _count(self, attempt: RunningAttempt, account: Account, sign: int) -> None:
        account.running_milli += sign * sum(share.milli for share in attempt.shares)
        self._live[attempt.task_id] += sign
        if sign > 0:
            self._timetable.put(attempt)
            return
        self._timetable.drop(attempt.id)
        if not self._live[attempt.task_id]:
            del self._live[attempt.task_id]
