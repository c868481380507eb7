"""Tasks: submit, look, wait, cancel."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from potluck.consumer.http.api_call import ask, idempotent, path_of
from potluck.consumer.http.stream import SentEvent, Stream
from potluck.consumer.http.transport import Patience, Transport
from potluck.model.error import PotluckError
from potluck.model.task import TaskRequest, TaskState
from potluck.wire import routes
from potluck.wire.consumer import (
    AttemptPage,
    Explanation,
    FailedItemPage,
    FollowedState,
    FollowEvent,
    LogPage,
    RetryTask,
    TaskPage,
    TaskView,
)
from potluck.wire.estimate import Estimate
from potluck.wire.response import decoded

_EVENT: type[FollowEvent] = FollowEvent  # type: ignore[assignment]  # a union is a type to msgspec


class Follow(Stream[FollowEvent]):
    """The events of one task, until it is final and its log is complete."""

    def _taken(self, sent: SentEvent) -> FollowEvent:
        event: FollowEvent = decoded(sent.data.encode(), _EVENT, self._transport.url)
        if isinstance(event, FollowedState):
            self._is_over = event.task.state.is_final
        return event


class Tasks:
    """Of one account at one server."""

    def __init__(self, transport: Transport):
        self._transport = transport

    @property
    def patience(self) -> Patience:
        return self._transport.patience

    def submit(self, request: TaskRequest) -> TaskView:
        """Puts a task into the queue, once, however often the network makes us ask."""
        return ask(
            self._transport, routes.SUBMIT_TASK, TaskView, body=request, headers=idempotent()
        )

    def estimate(self, request: TaskRequest) -> Estimate:
        """What the task would meet if it were submitted now: who could take it, for how much, and
        when. Nothing is sent along, stored or promised."""
        return ask(self._transport, routes.ESTIMATE_TASK, Estimate, body=request, repeatable=True)

    def get(self, task_id: str) -> TaskView:
        """A task as it is now, with its newest attempts and, while it waits, why."""
        return ask(self._transport, routes.GET_TASK, TaskView, {"task_id": task_id})

    def list(
        self,
        limit: int | None = None,
        cursor: str | None = None,
        states: Sequence[TaskState] = (),
        *,
        name: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> TaskPage:
        """My tasks, newest first; `next_cursor` of the answer asks for the older ones.

        Only those in one of the states, of that name and kind, submitted since and before then.
        """
        query = {
            "limit": limit,
            "cursor": cursor,
            "state": tuple(states) or None,
            "name": name,
            "kind": kind,
            "since": since and since.astimezone(UTC).isoformat(),
            "until": until and until.astimezone(UTC).isoformat(),
        }
        return ask(self._transport, routes.LIST_TASKS, TaskPage, query=query)

    def explain(self, task_id: str) -> Explanation:
        """Why a task waits, what would help, and when it may start."""
        return ask(self._transport, routes.EXPLAIN_TASK, Explanation, {"task_id": task_id})

    def cancel(self, task_id: str) -> TaskView:
        """Calls a task off; cancelling a cancelled one is fine, so this may be repeated too."""
        named = {"task_id": task_id}
        return ask(self._transport, routes.CANCEL_TASK, TaskView, named, headers=idempotent())

    def retry(
        self,
        task_id: str,
        *,
        all_items: bool = False,
        secrets: Mapping[str, str] | None = None,
        trust: Sequence[str] = (),
        secrets_to_strangers: bool = False,
    ) -> TaskView:
        """A task that has ended, once more, as a new one: of an array the items that have not
        succeeded, or all of them. Secrets ended with it, and are given again."""
        asked = RetryTask(all_items, dict(secrets or {}), tuple(trust), secrets_to_strangers)
        named = {"task_id": task_id}
        return ask(
            self._transport, routes.RETRY_TASK, TaskView, named, body=asked, headers=idempotent()
        )

    def logs(self, task_id: str, attempt: int | None = None, offset: int | None = None) -> LogPage:
        """A part of the log of the attempt with this number; of the newest without one."""
        query = {"attempt": attempt, "offset": offset}
        return ask(self._transport, routes.TASK_LOGS, LogPage, {"task_id": task_id}, query=query)

    def follow(self, task_id: str, on_gap: Callable[[PotluckError], None] | None = None) -> Follow:
        """States and log as they happen, until the task is final and its log is complete."""
        return Follow(self._transport, path_of(routes.FOLLOW_TASK, {"task_id": task_id}), on_gap)

    def wait(self, task_id: str) -> TaskView:
        """The task in its final state."""
        task = self.get(task_id)
        if task.state.is_final:
            return task
        for event in self.follow(task_id):
            if isinstance(event, FollowedState):
                task = event.task
        return task

    def attempts(
        self,
        task_id: str,
        cursor: int | None = None,
        *,
        item: int | None = None,
        limit: int | None = None,
    ) -> AttemptPage:
        """Attempts at a task, newest first, before the number `cursor`; of an array, at an item."""
        query = {"cursor": cursor, "item": item, "limit": limit}
        named = {"task_id": task_id}
        return ask(self._transport, routes.LIST_ATTEMPTS, AttemptPage, named, query=query)

    def failed_items(
        self, task_id: str, cursor: int | None = None, limit: int | None = None
    ) -> FailedItemPage:
        """Items of an array that failed, in order, behind the item `cursor`."""
        query = {"cursor": cursor, "limit": limit}
        named = {"task_id": task_id}
        return ask(self._transport, routes.FAILED_ITEMS, FailedItemPage, named, query=query)
