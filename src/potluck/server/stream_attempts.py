"""Which live attempts of this instance's nodes work on call streams."""

from collections import OrderedDict

from potluck.model.ids import AccountId, AttemptId, TaskId

_MOST = 10_000


class StreamAttempts:
    """A hint that saves a statement; an attempt that is missing is found in the database."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[AttemptId, tuple[AccountId, TaskId]] = OrderedDict()

    def note(self, attempt_id: AttemptId, account_id: AccountId, task_id: TaskId) -> None:
        self._tasks[attempt_id] = account_id, task_id
        if len(self._tasks) > _MOST:
            self._tasks.popitem(last=False)

    def task_of(self, attempt_id: AttemptId) -> tuple[AccountId, TaskId] | None:
        """With the account that it is of."""
        return self._tasks.get(attempt_id)

    def forget(self, attempt_id: AttemptId) -> None:
        self._tasks.pop(attempt_id, None)
