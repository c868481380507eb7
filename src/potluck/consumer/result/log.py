"""The log and the values of an attempt, fetched page by page as they are read."""

import time
from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from potluck.consumer.files.files import Files
from potluck.consumer.http.transport import Transport, call_api
from potluck.consumer.result.log_lines import LineSelection, LineSelector
from potluck.consumer.tasks import Tasks
from potluck.model.blob import Value
from potluck.model.error import NotFound
from potluck.model.ids import TaskId, split_call_id
from potluck.wire import item_file, routes
from potluck.wire.consumer import LogPage, LogPiece, TaskView
from potluck.wire.results import AskResults, ResultPiece, Results, TaskResult, Wanted

_LOOK_SECONDS = 0.2  # between two looks whether a call is over
_BEHIND_ALL = 1_000_000  # more pieces than any task has: only its end is awaited


class Pieces:
    """Fetches pieces of results; the calls are repeatable, since they change nothing."""

    def __init__(self, transport: Transport, tasks: Tasks):
        self._transport = transport
        self._tasks = tasks
        self._files = Files(transport)

    def get(self, task_id: str, behind: int = 0) -> TaskResult:
        """The result of a function task so far, after so many pieces; see `has_more`."""
        whole_id, item = split_call_id(task_id)
        if item is not None:
            return self._of_call(self._tasks.get(task_id), whole_id, item)
        result = self._poll(task_id, behind)
        if result is not None:
            return result
        state = self._tasks.get(task_id).state
        # If it ended between the two calls, there is a result now.
        result = self._poll(task_id, behind) if state.is_final else None
        return result or TaskResult(TaskId(task_id), state, behind)

    def is_over(self, task_id: str, wait_seconds: float) -> bool:
        """Whether the task is final now or within this time."""
        if split_call_id(task_id)[1] is not None:
            return self._is_call_over(task_id, wait_seconds)
        result = self._poll(task_id, _BEHIND_ALL, wait_seconds)
        return result is not None and result.state.is_final

    def _of_call(self, call: TaskView, whole_id: TaskId, item: int) -> TaskResult:
        """The result of one call of a stream, in the form of a task's."""
        result = TaskResult(
            call.id, call.state, 0, [], call.reason, call.detail, last_lines=call.last_lines
        )
        behind, has_more = 0, call.state.is_final
        while has_more and (page := self._poll(whole_id, behind)) is not None:
            for piece in page.pieces:
                if piece.start <= item < piece.end:
                    return replace(result, behind=1, pieces=[self._cut(piece, item)])
            behind, has_more = page.behind, page.has_more
        return result

    def _cut(self, piece: ResultPiece, item: int) -> ResultPiece:
        """The part of a piece that is about one item."""
        if piece.is_error:
            return replace(piece, start=0, end=1)
        blob = piece.value.blob
        data = piece.value.data if blob is None else self._files.download_bytes(blob)
        values = item_file.unpack(data, piece.end - piece.start)
        return replace(piece, start=0, end=1, value=Value(values[item - piece.start]))

    def _is_call_over(self, call_id: str, wait_seconds: float) -> bool:
        until = time.monotonic() + wait_seconds
        while not (is_over := self._tasks.get(call_id).state.is_final):
            if time.monotonic() >= until:
                break
            time.sleep(min(_LOOK_SECONDS, wait_seconds))
        return is_over

    def _poll(self, task_id: str, behind: int, wait_seconds: float = 0.0) -> TaskResult | None:
        body = AskResults((Wanted(TaskId(task_id), behind),), wait_seconds)
        response = call_api(
            self._transport, routes.ASK_RESULTS, Results, body=body, repeatable=True
        )
        return next(iter(response.results), None)


class Log:
    """The log of one attempt: iterate its pieces, or read a stream as text."""

    def __init__(self, tasks: Tasks, task_id: str, attempt: int | None):
        self._tasks = tasks
        self._task_id = task_id
        self._attempt = attempt  # None: no attempt has started
        self._kept: list[LogPiece] | None = None
        self._is_cleared = False

    def __iter__(self) -> Iterator[LogPiece]:
        """The present pieces, in the order in which they were written."""
        if self._kept is not None:
            yield from self._kept
            return
        read: list[LogPiece] = []
        for page in self._pages():
            read += page.pieces
            yield from page.pieces
            if page.complete:  # it does not change any more
                self._kept = read

    @property
    def stdout(self) -> str:
        return self._text("stdout")

    @property
    def stderr(self) -> str:
        return self._text("stderr")

    @property
    def remarks(self) -> str:
        """The platform's own messages, such as the output of installations."""
        return self._text("potluck")

    @property
    def text(self) -> str:
        """All streams, interleaved."""
        return self._text("stdout", "stderr", "potluck")

    @property
    def cleared(self) -> bool:
        """Whether there may have been a log that is no longer kept."""
        for _ in self:
            break
        return self._is_cleared

    def lines(
        self,
        *streams: str,
        tail: int | None = None,
        since: datetime | None = None,
        grep: str | None = None,
    ) -> list[str]:
        """Lines of these streams, by default of all: the last ones, those that the server received
        since a time, or those that contain a text."""
        selector = LineSelector(LineSelection(tail, since, grep))
        pieces = (piece for piece in self if not streams or piece.stream in streams)
        selected = selector.feed(pieces) + selector.end()
        return [line.text.rstrip("\r\n") for line in selected]

    def read_bytes(self, stream: str = "stdout") -> bytes:
        """The exact bytes of a stream."""
        data = b"".join(piece.data for piece in self if piece.stream == stream)
        if not data and self._is_cleared:
            raise NotFound(
                f"The log of {self._task_id} is no longer kept.",
                "Logs are deleted with the results, a while after the end: see `kept_until`.",
            )
        return data

    def _text(self, *streams: str) -> str:
        if len(streams) == 1:
            return self.read_bytes(streams[0]).decode("utf-8", "replace")
        return b"".join(piece.data for piece in self).decode("utf-8", "replace")

    def _pages(self) -> Iterator[LogPage]:
        offset, is_last = 0, self._attempt is None
        while not is_last:
            page = self._tasks.logs(self._task_id, self._attempt, offset)
            self._is_cleared = page.cleared
            yield page
            is_last = page.next_offset <= offset or page.complete
            offset = page.next_offset
