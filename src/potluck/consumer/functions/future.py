"""A call that was submitted: a future like any other, and the task behind it."""

import reprlib
import threading
from collections.abc import Generator
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from potluck.consumer import notebook
from potluck.consumer.functions.decode_value import FailedValue, Opener
from potluck.consumer.functions.event_loop import in_event_loop
from potluck.consumer.functions.failure_text import ended
from potluck.model.blob import BlobRef
from potluck.model.error import PotluckError
from potluck.model.ids import TaskId
from potluck.model.task import TaskState
from potluck.wire.results import ResultPiece, TaskResult

if TYPE_CHECKING:
    from potluck.consumer.functions.dispatch import Dispatch

T = TypeVar("T")


class TaskFuture(Future[T]):
    """Its result is what the function returned; `task_id` is known once the server has it.

    It works with `concurrent.futures.wait` and `as_completed`. `cancel` calls the task off, also
    while it runs.
    """

    def __init__(self, dispatch: "Dispatch", opener: Opener | None = None):
        super().__init__()
        self.task_id: TaskId | None = None
        self._dispatch = dispatch
        self._opener = opener or Opener()
        self._called_off = False
        self._ending = threading.RLock()

    def result(self, timeout: float | None = None) -> T:
        self._dispatch.check_process()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._dispatch.check_process()
        return super().exception(timeout)

    def __await__(self) -> Generator[Any, None, T]:
        """In an event loop. Cancelled while it is awaited, the task is called off;
        `asyncio.shield(future)` lets it go on.
        """
        import asyncio

        return asyncio.wrap_future(self).__await__()

    def __repr__(self) -> str:
        return f"<TaskFuture {self._told()}>"

    def _told(self) -> str:
        """How it is, without asking anybody."""
        named = self.task_id or "on its way"
        if not self.done():
            return str(named)
        if self.cancelled():
            return f"{named}, cancelled"
        error = super().exception()
        return f"{named}, {'done' if error is None else f'raised {type(error).__name__}'}"

    def _ipython_display_(self) -> None:
        """In a notebook: where its task is, until it has a result."""
        notebook.show_live(self._picture)

    def _picture(self) -> notebook.NotebookView:
        if not self.done():
            told = self._dispatch.stage(self.task_id) if self.task_id else "on its way"
            return notebook.NotebookView(told, notebook.bar(told))
        failed = self.cancelled() or super().exception() is not None
        told = self._told() if failed else f"{self._told()}: {reprlib.repr(super().result())}"
        return notebook.NotebookView(told, notebook.line(told), is_over=True)

    def cancel(self) -> bool:
        """True if there will be no result: the task is called off, or was not even sent."""
        self._dispatch.check_process()
        if self.done():
            return self.cancelled()
        self._called_off = True
        task_id = self.task_id
        if in_event_loop():
            return self._leave(task_id)
        if self._dispatch.sender.take_back(self) or (task_id and self._dispatch.cancel(task_id)):
            return self._end_as_cancelled()
        # On its way: it is called off as soon as it has an id. Or it is over, and its result comes.
        return False

    def cancel_waiting(self) -> None:
        """Calls it off if it has not begun; what runs is left to its end."""
        if self.task_id is None or self._dispatch.is_waiting(self.task_id):
            self.cancel()

    def _leave(self, task_id: TaskId | None) -> bool:
        """For us it is over at once; the server is told by another thread."""
        if task_id is not None:
            self._dispatch.collector.forget(task_id)
            self._dispatch.sender.call_off(task_id)
        else:
            self._dispatch.sender.take_back(self)
        return self._end_as_cancelled()

    def opened_by(self, opener: Opener) -> None:
        """Known before the request is sent."""
        self._opener = opener

    def submitted(self, task_id: TaskId) -> None:
        self.task_id = task_id
        if self._called_off:
            self._dispatch.sender.call_off(task_id)
            self._end_as_cancelled()
        else:
            self._dispatch.collector.watch(task_id, self)

    def refused(self, error: PotluckError) -> None:
        self._fail(error)

    def lost(self, error: PotluckError) -> None:
        self._fail(error)

    def told(self, result: TaskResult) -> None:
        if result.pieces:
            self._take(result.pieces[-1])
        elif self._called_off and result.state is TaskState.CANCELLED:
            self._end_as_cancelled()
        elif result.state.is_final:
            self._fail(ended(result))

    def _take(self, piece: ResultPiece) -> None:
        """A large value is fetched by another thread: others wait for theirs."""
        blob = piece.value.blob
        if blob is None:
            self._open(piece.value.data, piece)
        else:
            self._dispatch.fetches.put(lambda: self._fetch(blob, piece))

    def _fetch(self, blob: BlobRef, piece: ResultPiece) -> None:
        try:
            files = self._dispatch.client.files
            self._open(files.download_bytes(blob, self._opener.most_bytes), piece)
        except Exception as error:  # noqa: BLE001 - there may be no memory for it
            self._fail(error)

    def _open(self, data: bytes, piece: ResultPiece) -> None:
        if piece.is_error:
            self._fail(self._opener.error(data, piece))
            return
        value = self._opener.value(data, piece)
        if isinstance(value, FailedValue):
            self._fail(value.error)
        else:
            with suppress(InvalidStateError):  # cancelled meanwhile
                self.set_result(cast(T, value))

    def _fail(self, error: Exception) -> None:
        with suppress(InvalidStateError):
            self.set_exception(error)

    def _end_as_cancelled(self) -> bool:
        """Those who wait for several futures at once are told by the second call.

        Whoever calls it off, and the thread that hears of it, may come here at once.
        """
        with self._ending:
            if not self.cancelled() and super().cancel():
                self.set_running_or_notify_cancel()
        return self.cancelled()
