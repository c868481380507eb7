"""What the server has of a task's values, as the nodes told it."""

from potluck.consumer.http.api_call import ask
from potluck.consumer.http.transport import Transport
from potluck.consumer.tasks import Tasks
from potluck.model.ids import TaskId
from potluck.wire import routes
from potluck.wire.results import AskResults, Results, TaskResult, Wanted

_BEHIND_ALL = 1_000_000  # so many pieces no task has: only its end is news


class Pieces:
    """Asked for again and again: nothing is changed by it."""

    def __init__(self, transport: Transport, tasks: Tasks):
        self._transport = transport
        self._tasks = tasks

    def get(self, task_id: str, behind: int = 0) -> TaskResult:
        """What the function of a task has given so far, behind so many pieces; see `has_more`."""
        found = self._now(task_id, behind)
        if found is not None:
            return found
        state = self._tasks.get(task_id).state
        # It may have ended just now, and then there is something to say.
        later = self._now(task_id, behind) if state.is_final else None
        return later or TaskResult(TaskId(task_id), state, behind)

    def is_over(self, task_id: str, wait_seconds: float) -> bool:
        """Whether the task is over, then or within this time."""
        found = self._now(task_id, _BEHIND_ALL, wait_seconds)
        return found is not None and found.state.is_final

    def _now(self, task_id: str, behind: int, wait_seconds: float = 0.0) -> TaskResult | None:
        asked = AskResults((Wanted(TaskId(task_id), behind),), wait_seconds)
        found = ask(self._transport, routes.ASK_RESULTS, Results, body=asked, repeatable=True)
        return next(iter(found.results), None)
