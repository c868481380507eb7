"""Calls of functions as items of call streams.

Calls of one function with one set of options go to one open array, the call stream, and each call
keeps its own future. `call_sender.py` sends them.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from potluck.consumer.functions.decode_value import ValueDecoder
from potluck.consumer.functions.failure_text import item_error
from potluck.consumer.functions.pieces import decode_piece, find_failures
from potluck.consumer.functions.sender import ResponseHandler
from potluck.model.error import PotluckError, TaskFailed
from potluck.model.ids import TaskId
from potluck.model.task import ItemRange, TaskRequest, TaskState
from potluck.wire.results import ResultPiece, TaskResult

if TYPE_CHECKING:
    from potluck.consumer.functions.dispatch import Dispatch

# The arguments of a larger call are uploaded, and the call is a task of its own.
MOST_CALL_BYTES = 65_536
# The server closes a stream that is older or longer.
_MOST_ITEMS = 10_000
_MOST_SECONDS = 3_000.0


# How many times as long as the request itself calls may take from their request to their results.
_MOST_REQUEST_TIMES = 5.0
_NEW_SHARE = 0.25  # of the newest measurement in a smoothed one


class CallListener(ResponseHandler, Protocol):
    """The future of a call."""

    def sent_as(self, stream: "CallStream", item: int) -> None: ...

    def returned(self, value: object) -> None: ...

    def cancelled_on_server(self, error: PotluckError) -> None: ...

    def opened_by(self, opener: ValueDecoder) -> None: ...


class WaitingCall(Struct, eq=False):
    channel: "CallChannel"
    arguments: bytes
    listener: CallListener


class Turnaround:
    """Whether further calls of a stream should wait for those under way, and share a request with
    the callers that these wake. Not safe for threads by itself.

    Callers in threads that wait for their results would otherwise divide into groups that follow
    each other, each with its own requests and commits. Times are those of a monotonic clock.
    """

    def __init__(self) -> None:
        self._sent_at: dict[int, float] = {}  # by the last call of each request that has no result
        self._last_call = -1  # of the newest request
        self._last_count = 0
        self._request_seconds: float | None = None
        self._seconds: float | None = None  # None: calls are not held back

    def sent(self, last_call: int, count: int, now: float) -> None:
        self._sent_at[last_call] = now
        self._last_call, self._last_count = last_call, count

    def acknowledged(self, seconds: float) -> None:
        """The newest request was answered after this time."""
        self._request_seconds = _smoothed(self._request_seconds, seconds)

    def ended(self, calls: Iterable[int], now: float) -> None:
        """They have their results."""
        for call in calls:
            if (sent_at := self._sent_at.pop(call, None)) is not None:
                self._seconds = _smoothed(self._seconds, now - sent_at)

    def forget(self, calls: Iterable[int]) -> None:
        """They will have no results, or did not run."""
        for call in calls:
            self._sent_at.pop(call, None)

    def gave_up(self) -> None:
        """What was held back was sent before the results came."""
        self._seconds = None

    def hold_until(self, waiting_count: int) -> float | None:
        """Until when so many calls wait for the results of the newest request; None: not at all."""
        sent_at = self._sent_at.get(self._last_call)
        if sent_at is None or waiting_count >= self._last_count:
            return None
        if self._seconds is None or self._request_seconds is None:
            return None
        if self._seconds > _MOST_REQUEST_TIMES * self._request_seconds:
            return None
        return sent_at + 2 * self._seconds


def _smoothed(before: float | None, new: float) -> float:
    return new if before is None else before + _NEW_SHARE * (new - before)


class CallStream:
    """One stream on the server: its calls that have no result yet."""

    def __init__(self, dispatch: "Dispatch", opener: ValueDecoder) -> None:
        self.task_id: TaskId | None = None
        self.items = 0  # how many calls the server has
        self.is_open = True
        self._dispatch = dispatch
        self._opener = opener
        self._since = time.monotonic()
        self._waiting: dict[int, CallListener] = {}
        self._end: TaskResult | None = None
        self._turnaround = Turnaround()
        self._lock = threading.Lock()

    def has_room(self, count: int) -> bool:
        is_young = time.monotonic() - self._since < _MOST_SECONDS
        return self.is_open and is_young and self.items + count <= _MOST_ITEMS

    def expect(self, start: int, listeners: Sequence[CallListener]) -> None:
        """Before the calls are sent: results may come before the answer."""
        with self._lock:
            self._waiting.update(enumerate(listeners, start))
            last_call = start + len(listeners) - 1
            self._turnaround.sent(last_call, len(listeners), time.monotonic())

    def acknowledged(self, count: int, request_seconds: float) -> None:
        """Notes that the server has taken the calls that were sent last, of this count."""
        with self._lock:
            self._turnaround.acknowledged(request_seconds)
            self.items += count
        if self._end is not None:
            self._fail_rest(self._end)

    def hold_until(self, waiting_count: int) -> float | None:
        """Until when so many further calls should wait for the results of those sent last."""
        with self._lock:
            return self._turnaround.hold_until(waiting_count)

    def gave_up_holding(self) -> None:
        with self._lock:
            self._turnaround.gave_up()

    def withdraw(self, start: int, count: int) -> None:
        """The calls were not sent, or the server did not take them."""
        with self._lock:
            self._turnaround.forget(range(start, start + count))
            for item in range(start, start + count):
                self._waiting.pop(item, None)

    def forget(self, item: int) -> None:
        """Nothing waits for this call any more."""
        with self._lock:
            self._waiting.pop(item, None)
            self._turnaround.forget((item,))

    def receive(self, result: TaskResult) -> None:
        tasks, files = self._dispatch.client.tasks, self._dispatch.client.files
        failures = find_failures(result, tasks)
        for piece in result.pieces:
            with self._lock:
                listeners = [self._waiting.pop(at, None) for at in range(piece.start, piece.end)]
            if not any(listeners):
                continue
            if piece.value.blob is not None:
                self._fetch_later(listeners, piece, result)
                continue
            failed = failures.get(piece.start)
            values = decode_piece(piece, result, failed, self._opener, files)
            _pass_on(listeners, values)
        self._note_ended(result)
        for part in result.cancelled:
            self._cancelled(part)
        if result.state.is_final and not result.has_more:
            self.is_open = False
            self._end = result
            self._fail_rest(result)

    def _fail_rest(self, end: TaskResult) -> None:
        """Fails the calls that the server has and that got no result.

        Calls that are sent while the stream ends are left: the server refuses them, and the next
        stream gets them; or it has taken them, and `acknowledged` fails them.
        """
        with self._lock:
            rest = [item for item in self._waiting if item < self.items]
            failed = [(item, self._waiting.pop(item)) for item in rest]
        for item, listener in failed:
            error = item_error(end, item, None)
            if end.state is TaskState.CANCELLED:
                listener.cancelled_on_server(error)
            else:
                listener.refused(error)

    def _note_ended(self, result: TaskResult) -> None:
        """After their callers were woken: these may call again together with those that wait."""
        now = time.monotonic()
        with self._lock:
            for piece in result.pieces:
                self._turnaround.ended(range(piece.start, piece.end), now)
        self._dispatch.calls.send_held_back()

    def _cancelled(self, items: ItemRange) -> None:
        with self._lock:
            self._turnaround.forget(range(items.start, items.end))
            gone = [(at, self._waiting.pop(at, None)) for at in range(items.start, items.end)]
        for item, listener in gone:
            if listener is not None:
                name = f"{self.task_id}#{item}"
                error = TaskFailed(f"The call {name} was cancelled.", "Submit it again.")
                listener.cancelled_on_server(error)

    def _fetch_later(
        self, listeners: "list[CallListener | None]", piece: ResultPiece, result: TaskResult
    ) -> None:
        """Large values are fetched by another thread, so that other calls need not wait."""
        files = self._dispatch.client.files
        self._dispatch.fetches.put(
            lambda: _pass_on(listeners, decode_piece(piece, result, None, self._opener, files))
        )

    def lost(self, error: PotluckError) -> None:
        self.is_open = False
        with self._lock:
            left, self._waiting = self._waiting, {}
        for listener in left.values():
            listener.refused(error)


def _pass_on(listeners: "list[CallListener | None]", values: list[object]) -> None:
    for listener, value in zip(listeners, values, strict=False):
        if listener is not None:
            listener.returned(value)


class CallChannel:
    """Calls that are alike in function, options, files and secrets: one stream after the other."""

    def __init__(self, request: TaskRequest, opener: ValueDecoder) -> None:
        self.request = request
        self.opener = opener
        self.stream: CallStream | None = None
        self.is_alone = False  # each call is a task: the server does not know streams
        self._since = time.monotonic()

    @property
    def is_old(self) -> bool:
        """Whether uploads that its request names may have expired."""
        return time.monotonic() - self._since > _MOST_SECONDS
