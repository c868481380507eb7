"""The future of a submitted call."""

import reprlib
import threading
from collections.abc import Generator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from potluck.consumer import notebook
from potluck.consumer.functions.call_output import show_output
from potluck.consumer.functions.decode_value import FailedValue, ValueDecoder
from potluck.consumer.functions.event_loop import in_event_loop
from potluck.consumer.functions.failure_text import task_error
from potluck.model.blob import BlobRef
from potluck.model.error import PotluckError
from potluck.model.ids import TaskId, call_id
from potluck.model.task import TaskState
from potluck.wire.results import ResultPiece, TaskResult

if TYPE_CHECKING:
    from potluck.consumer.functions.call_stream import CallStream
    from potluck.consumer.functions.dispatch import Dispatch

T = TypeVar("T")


class TaskFuture(Future[T]):
    """Its result is the function's value; `task_id` waits until the server has the task.

    It works with `concurrent.futures.wait` and `as_completed`. `cancel` cancels the task, also
    while it runs. So do Ctrl-C and a timeout in `result` and `exception`, unless `keeps_running`.
    """

    def __init__(
        self, dispatch: "Dispatch", shows_output: bool = False, keeps_running: bool = False
    ):
        super().__init__()
        self._task_id: TaskId | None = None
        self._dispatch = dispatch
        self._opener = ValueDecoder()
        self._is_output_due = shows_output
        self._keeps_running = keeps_running
        self._is_cancelling = False
        self._ending = threading.RLock()
        self._is_acknowledged = threading.Event()
        self.add_done_callback(lambda _: self._is_acknowledged.set())

    @property
    def task_id(self) -> TaskId:
        """Waits until the server has the task; raises its refusal, or that it was cancelled."""
        self._dispatch.check_process()
        self._is_acknowledged.wait()
        if self._task_id is None:
            super().result(0)
        assert self._task_id is not None, "without one, it was refused or cancelled"
        return self._task_id

    def result(self, timeout: float | None = None) -> T:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """Until it is done. Ctrl-C and a timeout cancel the task, in another thread."""
        self._dispatch.check_process()
        try:
            is_done = bool(wait([self], timeout).done)
        except KeyboardInterrupt:
            if not self._keeps_running:
                self._abandon()
            raise
        if not is_done:
            stage = self._stage()
            if self._keeps_running or self._abandon():
                end = "it continues" if self._keeps_running else "it is cancelled"
                raise TimeoutError(f"No result within {timeout:g} seconds; {end}: {stage}")
        self._show_output()

    def _abandon(self) -> bool:
        """Cancels it without waiting for the server; false if it is done."""
        self._is_cancelling = True
        return not self.done() and self._leave(self._task_id)

    def _stage(self) -> str:
        task_id = self._task_id
        return "it is being submitted" if task_id is None else self._dispatch.stage(task_id)

    def _show_output(self) -> None:
        """Once. Not in an event loop, which `await` keeps free, except in a cell of a notebook."""
        if in_event_loop() and not notebook.in_kernel():
            return
        is_due, self._is_output_due = self._is_output_due, False
        if is_due and self._task_id is not None and not self.cancelled():
            show_output(self._dispatch.client.tasks, self._task_id)

    def __await__(self) -> Generator[Any, None, T]:
        """Awaits the result. A cancelled await cancels the task, unless the future is shielded."""
        return self._awaited().__await__()

    async def _awaited(self) -> T:
        import asyncio

        from potluck.consumer.aio import call

        waiting = asyncio.wrap_future(self)
        with suppress(Exception):  # raised below
            await waiting
        if self._is_output_due:
            await call(self._show_output)
        return await waiting

    def __repr__(self) -> str:
        return f"<TaskFuture {self._summary()}>"

    def _summary(self) -> str:
        """The state, without a request to the server."""
        name = self._task_id or "being submitted"
        if not self.done():
            return str(name)
        if self.cancelled():
            return f"{name}, cancelled"
        error = super().exception()
        return f"{name}, {'done' if error is None else f'raised {type(error).__name__}'}"

    def _ipython_display_(self) -> None:
        """In a notebook: the phase of its task, until it has a result."""
        notebook.show_live(self._view)

    def _view(self) -> notebook.NotebookView:
        if not self.done():
            text = self._dispatch.stage(self._task_id) if self._task_id else "being submitted"
            return notebook.NotebookView(text, notebook.bar(text))
        text = self._summary()
        if not self.cancelled() and super().exception() is None:
            text += f": {reprlib.repr(super().result())}"
        return notebook.NotebookView(text, notebook.line(text), is_over=True)

    def cancel(self) -> bool:
        """Cancels the task, or its submission; true if there will be no result."""
        self._dispatch.check_process()
        if self.done():
            return self.cancelled()
        self._is_cancelling = True
        task_id = self._task_id
        if in_event_loop():
            return self._leave(task_id)
        if self._take_back() or (task_id and self._dispatch.cancel(task_id)):
            return self._end_as_cancelled()
        # It is being submitted, and is cancelled once it has an id; or it is final already.
        return False

    def cancel_waiting(self) -> None:
        """Cancels the task if it has not started."""
        if self._task_id is None or self._dispatch.is_waiting(self._task_id):
            self.cancel()

    def _leave(self, task_id: TaskId | None) -> bool:
        """Ends the future immediately; another thread cancels the task."""
        if task_id is not None:
            self._forget()
            self._dispatch.sender.call_off(task_id)
        else:
            self._take_back()
        return self._end_as_cancelled()

    def _take_back(self) -> bool:
        """Whether it was not sent yet, and will not be."""
        return self._dispatch.sender.take_back(self)

    def _forget(self) -> None:
        """Nothing waits for its result any more."""
        if self._task_id is not None:
            self._dispatch.collector.forget(self._task_id)

    def opened_by(self, opener: ValueDecoder) -> None:
        """Sets the decoder, before the request is sent."""
        self._opener = opener

    def submitted(self, task_id: TaskId) -> None:
        self._task_id = task_id
        self._is_acknowledged.set()
        if self._is_cancelling:
            self._dispatch.sender.call_off(task_id)
            self._end_as_cancelled()
        else:
            self._dispatch.collector.watch(task_id, self)

    def refused(self, error: PotluckError) -> None:
        self._fail(error)

    def lost(self, error: PotluckError) -> None:
        self._fail(error)

    def receive(self, result: TaskResult) -> None:
        if result.pieces:
            self._take(result.pieces[-1])
        elif result.state is TaskState.CANCELLED:
            self.cancelled_on_server(task_error(result))
        elif result.state.is_final:
            self._fail(task_error(result))

    def cancelled_on_server(self, error: PotluckError) -> None:
        """It was cancelled by `cancel`, whose answer may come later, or by another client."""
        if self._is_cancelling:
            self._end_as_cancelled()
        else:
            self._fail(error)

    def _take(self, piece: ResultPiece) -> None:
        """Large values are fetched by another thread, so that other futures need not wait."""
        blob = piece.value.blob
        if blob is None:
            self._open(piece.value.data, piece)
        else:
            self._dispatch.fetches.put(lambda: self._fetch(blob, piece))

    def _fetch(self, blob: BlobRef, piece: ResultPiece) -> None:
        try:
            files = self._dispatch.client.files
            self._open(files.download_bytes(blob, self._opener.most_bytes), piece)
        except Exception as error:  # noqa: BLE001 - such as MemoryError
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
        """The second call notifies `futures.wait` and `as_completed`. The lock: the caller of
        `cancel` and the collector's thread may be here at the same time.
        """
        with self._ending:
            if not self.cancelled() and super().cancel():
                self.set_running_or_notify_cancel()
        return self.cancelled()


class CallFuture(TaskFuture[T]):
    """The future of a call in a stream. Its `task_id` is `task#item`."""

    def __init__(
        self, dispatch: "Dispatch", shows_output: bool = False, keeps_running: bool = False
    ):
        super().__init__(dispatch, shows_output, keeps_running)
        self._stream: CallStream | None = None
        self._item = 0

    def sent_as(self, stream: "CallStream", item: int) -> None:
        """The server has it."""
        assert stream.task_id is not None, "a stream that was sent has an id"
        self._stream, self._item = stream, item
        self._task_id = call_id(stream.task_id, item)
        self._is_acknowledged.set()
        if self._is_cancelling:
            self._leave(self._task_id)

    def returned(self, value: object) -> None:
        if isinstance(value, FailedValue):
            self._fail(value.error)
        else:
            with suppress(InvalidStateError):  # cancelled meanwhile
                self.set_result(cast(T, value))

    def _take_back(self) -> bool:
        return self._dispatch.calls.take_back(self) or super()._take_back()

    def _forget(self) -> None:
        if self._stream is None:
            super()._forget()
        else:
            self._stream.forget(self._item)
