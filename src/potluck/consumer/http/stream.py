"""Streams of Server-Sent Events that survive lost connections.

Each event arrives once and in order: a new connection names the last event that was read, and an
event that was cut off before its blank line does not count. An iteration that was interrupted (by
Ctrl-C, say) continues when the same object is iterated again.
"""

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from potluck.consumer.http.transport import Transport, get_requested_pause, translate_error
from potluck.model.error import PotluckError
from potluck.wire.response import not_potluck

# A carriage return at the end of the data may be half of \r\n, so it waits for the next byte.
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class SentEvent(Struct, frozen=True):
    id: str | None
    data: str  # empty if it only reports the stream's position
    kind: str = ""


class EventReader:
    """Splits received bytes into events; keeps the incomplete one."""

    def __init__(self) -> None:
        self._rest = b""
        self._id: str | None = None
        self._kind = ""
        self._data: list[str] = []

    def feed(self, received: bytes) -> Iterator[SentEvent]:
        *lines, self._rest = _LINE_END.split(self._rest + received)
        for line in lines:
            event = self._take(line)
            if event is not None:
                yield event

    def _take(self, line: bytes) -> SentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        elif name == "event":
            self._kind = value
        return None

    def _dispatch(self) -> SentEvent | None:
        """The event that a blank line completes; without data and id it was a keep-alive."""
        data, self._data = "\n".join(self._data), []
        identity, self._id = self._id, None
        kind, self._kind = self._kind, ""
        return SentEvent(identity, data, kind) if data or identity is not None else None


_READ_BYTES = 65_536
T = TypeVar("T")


class Stream(Generic[T]):
    """Decoded events, until the reader stops or `_is_over` is set.

    `on_gap` is called with the error of every lost connection, before the next try.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        on_gap: Callable[[PotluckError], None] | None = None,
        position: str | None = None,
    ):
        self._transport = transport
        self._path = path
        self._on_gap = on_gap
        self._last_event_id = position
        self._is_over = False
        self._is_closed = False
        self._each: AsyncIterator[T] | None = None
        self._failures = 0  # since the last received byte
        self._received_at = time.monotonic()

    def _taken(self, sent: SentEvent) -> T:
        """Decodes an event; sets `_is_over` if it is the last one."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[T]:
        self._note_received()
        while True:
            try:
                yield from self._one_connection()
                if self._is_over or self._is_closed:
                    return
                broken: PotluckError | HTTPError = HTTPError("The stream ended early.")
            except (PotluckError, HTTPError) as error:
                broken = error
            self._failures += 1
            self._pause(broken)

    def __aiter__(self) -> AsyncIterator[T]:
        """For `async for`: a thread reads the stream."""
        from potluck.consumer.aio import each

        # One bridge for all iterations: the next one gets the event that a cancelled one awaited.
        if self._each is None:
            self._each = each(self)
        return self._each

    def close(self) -> None:
        """Ends the iteration in another thread, at the next keep-alive at the latest."""
        self._is_closed = True

    def _note_received(self) -> None:
        """Keep-alives count too: there may be no events for days."""
        self._failures, self._received_at = 0, time.monotonic()

    def _one_connection(self) -> Iterator[T]:
        response = self._transport.open_stream(self._path, self._headers())
        try:
            if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise not_potluck(self._transport.url, "it sends no events")
            yield from self._events(response)
        finally:
            response.close()

    def _headers(self) -> dict[str, str]:
        position = {} if self._last_event_id is None else {"Last-Event-ID": self._last_event_id}
        return {"Accept": "text/event-stream", **position}

    def _events(self, response: BaseHTTPResponse) -> Iterator[T]:
        reader = EventReader()
        while (received := response.read1(_READ_BYTES)) and not self._is_closed:
            self._note_received()
            for sent in reader.feed(received):
                event = self._taken(sent) if sent.data else None
                # Noted before the yield: an interrupted consumer has the event already.
                self._last_event_id = sent.id if sent.id is not None else self._last_event_id
                if event is not None:
                    yield event

    def _pause(self, broken: PotluckError | HTTPError) -> None:
        patience = self._transport.patience
        error = translate_error(broken, self._transport.url)
        requested_seconds = get_requested_pause(error)
        silent_seconds = time.monotonic() - self._received_at
        is_lasting = not error.retryable or silent_seconds > patience.give_up_seconds
        if is_lasting or not patience.accepts(requested_seconds):
            raise error from broken
        if self._on_gap is not None:
            self._on_gap(error)
        time.sleep(patience.pause_seconds(self._failures, requested_seconds))
