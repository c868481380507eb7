"""The values of a task as the nodes reported them to the server."""

from potluck.consumer.http.api_call import call_api
from potluck.consumer.http.transport import Transport
from potluck.consumer.tasks import Tasks
from potluck.model.ids import TaskId
from potluck.wire import routes
from potluck.wire.results import AskResults, Results, TaskResult, Wanted

_BEHIND_ALL = 1_000_000  # more pieces than any task has: only its end is awaited


class Pieces:
    """Fetches pieces of results; the calls are repeatable, since they change nothing."""

    def __init__(self, transport: Transport, tasks: Tasks):
        self._transport = transport
        self._tasks = tasks

    def get(self, task_id: str, behind: int = 0) -> TaskResult:
        """The result of a function task so far, after so many pieces; see `has_more`."""
        result = self._poll(task_id, behind)
        if result is not None:
            return result
        state = self._tasks.get(task_id).state
        # If it ended between the two calls, there is a result now.
        result = self._poll(task_id, behind) if state.is_final else None
        return result or TaskResult(TaskId(task_id), state, behind)

    def is_over(self, task_id: str, wait_seconds: float) -> bool:
        """Whether the task is final now or within this time."""
        result = self._poll(task_id, _BEHIND_ALL, wait_seconds)
        return result is not None and result.state.is_final

    def _poll(self, task_id: str, behind: int, wait_seconds: float = 0.0) -> TaskResult | None:
        body = AskResults((Wanted(TaskId(task_id), behind),), wait_seconds)
        response = call_api(
            self._transport, routes.ASK_RESULTS, Results, body=body, repeatable=True
        )
        return next(iter(response.results), None)
