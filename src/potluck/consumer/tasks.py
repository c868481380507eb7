"""Tasks: submit, read, follow, wait, cancel."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from potluck.consumer.http.stream import SentEvent, Stream
from potluck.consumer.http.transport import (
    Patience,
    Transport,
    build_path,
    call_api,
    idempotency_header,
)
from potluck.consumer.item_log import select_item
from potluck.model.error import PotluckError
from potluck.model.ids import split_call_id
from potluck.model.task import TaskRequest, TaskState
from potluck.wire import routes
from potluck.wire.consumer import (
    AttemptPage,
    Explanation,
    FailedItemPage,
    FollowedState,
    FollowEvent,
    LogPage,
    LogPiece,
    RetryTask,
    TaskPage,
    TaskView,
)
from potluck.wire.estimate import Estimate
from potluck.wire.response import decode_response

_LOOK_SECONDS = 0.2  # between two looks whether a call is over
_EVENT: type[FollowEvent] = FollowEvent  # type: ignore[assignment]  # a union is a type to msgspec


class Follow(Stream[FollowEvent]):
    """The states and log of one task as they happen, until it is final and its log is complete."""

    def _taken(self, sent: SentEvent) -> FollowEvent:
        event: FollowEvent = decode_response(sent.data.encode(), _EVENT, self._transport.url)
        if isinstance(event, FollowedState):
            self._is_over = event.task.state.is_final
        return event


class Tasks:
    """The tasks of one account."""

    def __init__(self, transport: Transport):
        self._transport = transport

    @property
    def patience(self) -> Patience:
        return self._transport.patience

    def submit(self, request: TaskRequest) -> TaskView:
        """Submits a task, once, even if the request has to be repeated."""
        return call_api(
            self._transport,
            routes.SUBMIT_TASK,
            TaskView,
            body=request,
            headers=idempotency_header(),
        )

    def estimate(self, request: TaskRequest) -> Estimate:
        """Which nodes could take the task now, at what price, and when. Nothing is uploaded,
        stored or reserved."""
        return call_api(
            self._transport, routes.ESTIMATE_TASK, Estimate, body=request, repeatable=True
        )

    def get(self, task_id: str) -> TaskView:
        """The task's present state, with its newest attempts and the reason if it waits."""
        return call_api(self._transport, routes.GET_TASK, TaskView, {"task_id": task_id})

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
        """A page of the account's tasks that match, newest first; pass `next_cursor` to get older
        ones. `since` and `until` are about the time of submission.
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
        return call_api(self._transport, routes.LIST_TASKS, TaskPage, query=query)

    def explain(self, task_id: str) -> Explanation:
        """Why a task waits, what would help, and when it may start."""
        return call_api(self._transport, routes.EXPLAIN_TASK, Explanation, {"task_id": task_id})

    def cancel(self, task_id: str) -> TaskView:
        """Cancels a task; cancelling it again is no error."""
        names = {"task_id": task_id}
        return call_api(
            self._transport, routes.CANCEL_TASK, TaskView, names, headers=idempotency_header()
        )

    def retry(
        self,
        task_id: str,
        *,
        all_items: bool = False,
        secrets: Mapping[str, str] | None = None,
        trust: Sequence[str] = (),
        secrets_to_strangers: bool = False,
    ) -> TaskView:
        """Submits an ended task again as a new one: of an array the items that have not succeeded,
        or all. Secrets were deleted when it ended, and have to be given again."""
        body = RetryTask(all_items, dict(secrets or {}), tuple(trust), secrets_to_strangers)
        names = {"task_id": task_id}
        return call_api(
            self._transport,
            routes.RETRY_TASK,
            TaskView,
            names,
            body=body,
            headers=idempotency_header(),
        )

    def logs(self, task_id: str, attempt: int | None = None, offset: int | None = None) -> LogPage:
        """A page of the log of an attempt; of the newest one by default. A negative offset counts
        from the end of the log. Of a call (`task#item`), all that it wrote in one page."""
        whole_id, item = split_call_id(task_id)
        if item is not None:
            return self._call_log(whole_id, item, offset or 0)
        query = {"attempt": attempt, "offset": offset}
        return call_api(
            self._transport, routes.TASK_LOGS, LogPage, {"task_id": task_id}, query=query
        )

    def _call_log(self, task_id: str, item: int, offset: int) -> LogPage:
        """What one item wrote, in the newest attempt that had it."""
        attempts = self.attempts(task_id, item=item).attempts
        newest = attempts[0] if attempts else None
        if newest is None or newest.items is None:
            return LogPage(None, 0, 0, [], complete=False)
        pieces: list[LogPiece] = []
        for page in select_item(self._log_pages(task_id, newest.number), newest.items, item):
            pieces += page.pieces
        return replace(page, offset=offset, next_offset=len(pieces), pieces=pieces[offset:])

    def _log_pages(self, task_id: str, attempt: int) -> Iterator[LogPage]:
        offset, is_last = 0, False
        while not is_last:
            page = self.logs(task_id, attempt, offset)
            yield page
            is_last = page.next_offset <= offset or page.complete
            offset = page.next_offset

    def follow(self, task_id: str, on_gap: Callable[[PotluckError], None] | None = None) -> Follow:
        """States and log as they happen, until the task is final and its log is complete."""
        return Follow(self._transport, build_path(routes.FOLLOW_TASK, {"task_id": task_id}), on_gap)

    def wait(self, task_id: str) -> TaskView:
        """Waits for the end of the task and returns its final state."""
        task = self.get(task_id)
        while split_call_id(task_id)[1] is not None and not task.state.is_final:
            time.sleep(_LOOK_SECONDS)
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
        """Attempts of a task, or of an item of an array, newest first, before number `cursor`."""
        query = {"cursor": cursor, "item": item, "limit": limit}
        names = {"task_id": task_id}
        return call_api(self._transport, routes.LIST_ATTEMPTS, AttemptPage, names, query=query)

    def failed_items(
        self, task_id: str, cursor: int | None = None, limit: int | None = None
    ) -> FailedItemPage:
        """Failed items of an array, in order, after the item `cursor`."""
        query = {"cursor": cursor, "limit": limit}
        names = {"task_id": task_id}
        return call_api(self._transport, routes.FAILED_ITEMS, FailedItemPage, names, query=query)
