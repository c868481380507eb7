"""Results: what the functions of tasks have given."""

from potluck.consumer.ask import ask
from potluck.consumer.tasks import Tasks
from potluck.consumer.transport import Transport
from potluck.model.ids import TaskId
from potluck.wire import routes
from potluck.wire.results import AskResults, Results, TaskResult, Wanted


class TaskResults:
    """Of one account at one server."""

    def __init__(self, transport: Transport):
        self._transport = transport
        self._tasks = Tasks(transport)

    def get(self, task_id: str) -> TaskResult:
        """What the function of a task has given so far, as the node told it; see `has_more`."""
        found = self._now(task_id)
        if found is not None:
            return found
        state = self._tasks.get(task_id).state
        # It may have ended just now, and then there is something to say.
        later = self._now(task_id) if state.is_final else None
        return later or TaskResult(TaskId(task_id), state, 0)

    def _now(self, task_id: str) -> TaskResult | None:
        asked = AskResults((Wanted(TaskId(task_id)),))
        found = ask(self._transport, routes.ASK_RESULTS, Results, body=asked, repeatable=True)
        return next(iter(found.results), None)
