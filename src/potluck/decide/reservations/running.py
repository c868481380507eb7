"""Running attempts, and planned ones that the database has not confirmed yet."""

from msgspec import Struct

from potluck.decide.account import SchedulerAccount
from potluck.decide.reservations.timetable import Timetable
from potluck.decide.types import Assignment, RunningAttempt, WaitingTask
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId


class _PlannedUse(Struct, frozen=True, gc=False):
    attempt: RunningAttempt
    account: SchedulerAccount
    hold_micro: int


class RunningWork:
    """Counts each running or planned attempt once for its account."""

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._planned: dict[TaskId, list[_PlannedUse]] = {}
        self._live: dict[TaskId, int] = {}
        self._numbers = 0

    def live(self, task_id: TaskId) -> int:
        """How many attempts of a task run or are planned."""
        return self._live.get(task_id, 0)

    def expect(
        self, task: WaitingTask, given: Assignment, account: SchedulerAccount, now: float
    ) -> None:
        """Counts an assignment as running before the database has confirmed it."""
        self._numbers += 1
        planned_id = AttemptId(f"planned_{self._numbers}")
        attempt = given.running(planned_id, task.account_id, now + given.expected_seconds)
        planned = _PlannedUse(attempt, account, given.hold_micro)
        others = self._planned.get(task.id)
        if others is None:
            self._planned[task.id] = [planned]
        else:
            others.append(planned)
        account.planned_micro += given.hold_micro
        self._count(attempt, account, now)
        self._timetable.put_planned(attempt)

    def put(self, attempt: RunningAttempt, account: SchedulerAccount, now: float) -> None:
        """Adds a running attempt, which replaces the planned one."""
        known = self._timetable.get(attempt.id)
        if known is not None:
            self._remove(known, account, now)
        else:
            self.cease(attempt.task_id, attempt.node_id, now)
        self._count(attempt, account, now)
        self._timetable.put(attempt)

    def drop(self, attempt_id: AttemptId, account: SchedulerAccount, now: float) -> None:
        known = self._timetable.get(attempt_id)
        if known is not None:
            self._remove(known, account, now)

    def cease(self, task_id: TaskId, node_id: NodeId, now: float) -> AccountId | None:
        """Removes the planned attempt of a task on a node: it now runs, or was refused."""
        planned = self._planned.get(task_id, [])
        found = next((each for each in planned if each.attempt.node_id == node_id), None)
        if found is None:
            return None
        planned.remove(found)
        if not planned:
            del self._planned[task_id]
        found.account.planned_micro -= found.hold_micro
        self._remove(found.attempt, found.account, now)
        return found.account.id

    def _count(self, attempt: RunningAttempt, account: SchedulerAccount, now: float) -> None:
        account.have(_milli(attempt), now)
        live, task_id = self._live, attempt.task_id
        live[task_id] = live[task_id] + 1 if task_id in live else 1

    def _remove(self, attempt: RunningAttempt, account: SchedulerAccount, now: float) -> None:
        account.have(-_milli(attempt), now)
        self._timetable.drop(attempt.id)
        left = self._live.pop(attempt.task_id) - 1
        if left:
            self._live[attempt.task_id] = left


def _milli(attempt: RunningAttempt) -> int:
    shares = attempt.shares
    return shares[0].milli if len(shares) == 1 else sum([share.milli for share in shares])
