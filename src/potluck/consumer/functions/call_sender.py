"""The thread that sends calls of functions, each to the stream of its function and options.

It sends what has gathered while its last request was under way, or while quick calls were; the
first request opens a stream, the next ones append. An append names the index of its first item, so
it can be repeated safely. A stream that is full, old or closed is followed by another.
"""

import hashlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from msgspec.structs import replace

from potluck.consumer.functions.call_stream import (
    CallChannel,
    CallListener,
    CallStream,
    WaitingCall,
)
from potluck.consumer.functions.decode_value import ValueDecoder
from potluck.consumer.functions.sender import Submission, persist
from potluck.consumer.http.transport import call_api
from potluck.model.blob import INLINE_BYTES, Value
from potluck.model.error import BadSettings, Conflict, Internal, InvalidInput, PotluckError
from potluck.model.task import TaskRequest
from potluck.model.task_spec import FunctionSpec
from potluck.wire import item_file, routes
from potluck.wire.codec import encode_json
from potluck.wire.consumer import TaskView
from potluck.wire.results import AppendItems, ItemsAppended

if TYPE_CHECKING:
    from potluck.consumer.functions.dispatch import Dispatch

T = TypeVar("T")

_MOST_SENT = 1_000
_MOST_SENT_BYTES = INLINE_BYTES - item_file.index_bytes(_MOST_SENT)
_LONGEST_GATHERING_SECONDS = 0.005
_MOST_WAITING = 20_000
_MOST_WAITING_BYTES = 64 * 2**20
_MOST_STREAMS = 64  # that are open at a time


class CallSender:
    """The thread that sends calls. Callers that are faster than the network wait in `put`."""

    def __init__(self, dispatch: "Dispatch") -> None:
        self._dispatch = dispatch
        self._transport = dispatch.client.transport
        self._turn = threading.Condition()
        self._waiting: deque[WaitingCall] = deque()
        self._waiting_bytes = 0
        self._sending = 0
        self._channels: OrderedDict[tuple[bytes, ValueDecoder], CallChannel] = OrderedDict()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def channel(self, request: TaskRequest, opener: ValueDecoder) -> CallChannel:
        """One channel for all equal requests, whichever objects they were made from."""
        key = hashlib.sha256(encode_json(request)).digest(), opener
        with self._turn:
            channel = self._channels.get(key)
            if channel is None or channel.is_old:
                channel = self._channels[key] = CallChannel(request, opener)
            self._channels.move_to_end(key)
            if len(self._channels) > _MOST_STREAMS:
                self._channels.popitem(last=False)  # the server closes its stream
            return channel

    def put(self, call: WaitingCall) -> None:
        with self._turn:
            while self._is_full() and not self._is_closed:
                self._turn.wait()
            if self._is_closed:
                raise _closed()
            self._waiting.append(call)
            self._waiting_bytes += len(call.arguments)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="potluck-calls", daemon=True)
                self._thread.start()
            self._turn.notify_all()

    def _is_full(self) -> bool:
        return len(self._waiting) >= _MOST_WAITING or self._waiting_bytes >= _MOST_WAITING_BYTES

    def take_back(self, listener: CallListener) -> bool:
        """Removes a call from the queue; false if it has been sent."""
        with self._turn:
            for call in self._waiting:
                if call.listener is listener:
                    self._waiting.remove(call)
                    self._waiting_bytes -= len(call.arguments)
                    self._turn.notify_all()
                    return True
        return False

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until the server has all calls; false after the timeout."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._waiting and not self._sending, timeout)

    def close(self) -> None:
        with self._turn:
            self._is_closed = True
            self._turn.notify_all()
            channels = list(self._channels.values())
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self._transport.patience.read_seconds)
        self.close_streams(channels)

    def close_streams(self, channels: Sequence[CallChannel] | None = None) -> None:
        """Closes what is open, so that it ends at once; the server does so after a while."""
        for channel in self._channels.values() if channels is None else channels:
            stream, channel.stream = channel.stream, None
            if stream is None or stream.task_id is None or not stream.is_open:
                continue
            stream.is_open = False
            with suppress(PotluckError):
                names = {"task_id": stream.task_id}
                call_api(self._transport, routes.CLOSE_STREAM, TaskView, names)

    def _run(self) -> None:
        try:
            while (calls := self._next()) is not None:
                for _, group in groupby(calls, lambda call: id(call.channel)):
                    self._send(list(group))
                with self._turn:
                    self._sending = 0
                    self._turn.notify_all()
        finally:
            # Also after a bug in this thread: no caller may wait for ever.
            with self._turn:
                self._is_closed = True
                self._sending = 0
                left, self._waiting = self._waiting, deque()
                self._turn.notify_all()
            for call in left:
                call.listener.refused(_closed())

    def _next(self) -> list[WaitingCall] | None:
        """The calls that wait, which may have been taken back meanwhile; None when closed."""
        with self._turn:
            self._turn.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                return None
        self._let_others_add()
        if self._hold_back():
            self._let_others_add()
        with self._turn:
            calls = list(self._waiting)
            self._waiting.clear()
            self._waiting_bytes = 0
            # Each stream in one request, in the order of its calls.
            order = {id(call.channel): place for place, call in reversed([*enumerate(calls)])}
            if len(order) > 1:
                calls.sort(key=lambda call: order[id(call.channel)])
            self._sending = len(calls)
            self._turn.notify_all()
            return calls

    def _hold_back(self) -> bool:
        """Waits for the results of the last request, if that is worth it; returns whether so."""
        with self._turn:
            if not self._waiting:
                return False
            channel, stream = self._waiting[0].channel, self._waiting[0].channel.stream
            if stream is None:
                return False

            def hold_until() -> float | None:
                is_one_stream = all(call.channel is channel for call in self._waiting)
                can_wait = is_one_stream and not self._is_closed
                return stream.hold_until(len(self._waiting)) if can_wait else None

            until = hold_until()
            if until is None:
                return False
            if not self._turn.wait_for(lambda: hold_until() is None, until - time.monotonic()):
                stream.gave_up_holding()
            return True

    def send_held_back(self) -> None:
        """Results have come: what waited for them need not wait any longer."""
        with self._turn:
            self._turn.notify_all()

    def _let_others_add(self) -> None:
        """Results that arrive together wake many callers: those that are ready to call again share
        a request. It ends when none has added a call while this thread yielded to them.
        """
        until = time.monotonic() + _LONGEST_GATHERING_SECONDS
        count = 0
        while count < len(self._waiting) < _MOST_SENT and time.monotonic() < until:
            count = len(self._waiting)
            time.sleep(0)

    def _send(self, calls: list[WaitingCall]) -> None:
        while calls:
            count = _fitting(calls)
            now, calls = calls[:count], calls[count:]
            try:
                self._deliver(now)
            except PotluckError as error:
                for call in now:
                    call.listener.refused(error)
            except Exception as error:  # noqa: BLE001 - no caller may wait for ever
                why = f"Sending the call failed: {type(error).__name__}: {error}."
                for call in now:
                    call.listener.refused(Internal(why, "Check its function and arguments."))

    def _deliver(self, calls: list[WaitingCall]) -> None:
        """Appends to the open stream, or opens the next one."""
        self._persist(self._dispatch.check_python)
        channel, listeners = calls[0].channel, [call.listener for call in calls]
        inputs = item_file.pack([call.arguments for call in calls])
        stream = channel.stream
        if channel.is_alone:
            self._submit_each(channel, listeners, inputs)
            return
        if stream is not None and stream.has_room(len(calls)):
            start = stream.items
            stream.expect(start, listeners)
            began = time.monotonic()
            try:
                self._append(stream, start, inputs)
            except Conflict:
                stream.withdraw(start, len(calls))
                stream.is_open = False
            except BaseException:
                stream.withdraw(start, len(calls))
                raise
            else:
                stream.acknowledged(len(calls), time.monotonic() - began)
                _tell_sent(stream, start, listeners)
                return
        self._open(channel, listeners, inputs)

    def _append(self, stream: CallStream, start: int, inputs: bytes) -> None:
        assert stream.task_id is not None, "it was opened by the request before"
        body, names = AppendItems(start, inputs), {"task_id": stream.task_id}
        self._persist(
            lambda: call_api(
                self._transport,
                routes.APPEND_ITEMS,
                ItemsAppended,
                names,
                body=body,
                repeatable=True,
            )
        )

    def _open(self, channel: CallChannel, listeners: Sequence[CallListener], inputs: bytes) -> None:
        spec = channel.request.spec
        assert isinstance(spec, FunctionSpec), "only functions are called"
        request = replace(
            channel.request,
            spec=replace(spec, inputs=Value(inputs)),
            items=len(listeners),
            is_stream=True,
        )
        headers = {"Idempotency-Key": uuid4().hex}
        try:
            view = self._persist(
                lambda: call_api(
                    self._transport, routes.SUBMIT_TASK, TaskView, body=request, headers=headers
                )
            )
        except InvalidInput:
            # Of an earlier version; or something is wrong with it, which its answer then says.
            channel.is_alone = True
            self._submit_each(channel, listeners, inputs)
            return
        stream = CallStream(self._dispatch, channel.opener)
        stream.task_id, stream.items = view.id, len(listeners)
        stream.expect(0, listeners)
        channel.stream = stream
        _tell_sent(stream, 0, listeners)
        self._dispatch.collector.watch(view.id, stream)

    def _submit_each(
        self, channel: CallChannel, listeners: Sequence[CallListener], inputs: bytes
    ) -> None:
        """Each call as a task of its own, for a server that does not know streams."""
        spec = channel.request.spec
        assert isinstance(spec, FunctionSpec), "only functions are called"
        for listener, arguments in zip(
            listeners, item_file.unpack(inputs, _MOST_SENT), strict=True
        ):
            listener.opened_by(channel.opener)
            request = replace(channel.request, spec=replace(spec, inputs=Value(arguments)))
            self._dispatch.sender.put(Submission(request, listener))

    def _persist(self, send: Callable[[], T]) -> T:
        return persist(send, self._transport.patience, lambda: self._is_closed)


def _tell_sent(stream: CallStream, start: int, listeners: Sequence[CallListener]) -> None:
    for item, listener in enumerate(listeners, start):
        listener.sent_as(stream, item)


def _fitting(calls: Sequence[WaitingCall]) -> int:
    """How many of the first calls fit into one request; at least one."""
    size = 0
    for count, call in enumerate(calls[:_MOST_SENT]):
        size += len(call.arguments)
        if size > _MOST_SENT_BYTES and count:
            return count
    return min(len(calls), _MOST_SENT)


def _closed() -> BadSettings:
    return BadSettings("The client is closed.", "Submit while it is open.")
