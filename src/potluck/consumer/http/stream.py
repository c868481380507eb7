"""What a server sends as it happens, over any number of connections.

Everything comes once and in order: a new connection names the last event that was taken. An
iteration that was interrupted (by Ctrl-C, say) is continued by iterating the same object again.
"""

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from potluck.consumer.http.transport import Transport, asked_seconds, translated
from potluck.model.error import PotluckError
from potluck.wire.response import not_potluck

# A carriage return at the very end may be half of a pair, so it waits for what follows.
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class SentEvent(Struct, frozen=True):
    id: str | None
    data: str  # empty if it only says how far the stream has come
    kind: str = ""


class EventReader:
    """Keeps what has come of the next event."""

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
        """What the blank line completed; without data and id it was only a sign of life."""
        data, self._data = "\n".join(self._data), []
        identity, self._id = self._id, None
        kind, self._kind = self._kind, ""
        return SentEvent(identity, data, kind) if data or identity is not None else None


_READ_BYTES = 65_536
T = TypeVar("T")


class Stream(Generic[T]):
    """Until whoever reads it has enough, or what it tells of is over.

    `on_gap` is called with an error for every line that broke, before the next try.
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
        self._failures = 0  # since anything was heard
        self._heard_at = time.monotonic()

    def _taken(self, sent: SentEvent) -> T:
        """What was sent, read; sets `_is_over` if nothing comes after it."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[T]:
        self._hear()
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
        """For `async for`: it is read by a thread, and the loop goes on."""
        from potluck.consumer.aio import each

        # Always the same: what one iteration was cancelled in front of is the next one's.
        if self._each is None:
            self._each = each(self)
        return self._each

    def close(self) -> None:
        """Whoever reads it in another thread is let go, at the next sign of life at the latest."""
        self._is_closed = True

    def _hear(self) -> None:
        """A sign of life counts, too: what nothing happens to may be quiet for days."""
        self._failures, self._heard_at = 0, time.monotonic()

    def _one_connection(self) -> Iterator[T]:
        response = self._transport.open_stream(self._path, self._headers())
        try:
            if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise not_potluck(self._transport.url, "it sends no events")
            yield from self._events(response)
        finally:
            response.close()

    def _headers(self) -> dict[str, str]:
        known = {} if self._last_event_id is None else {"Last-Event-ID": self._last_event_id}
        return {"Accept": "text/event-stream", **known}

    def _events(self, response: BaseHTTPResponse) -> Iterator[T]:
        reader = EventReader()
        while (received := response.read1(_READ_BYTES)) and not self._is_closed:
            self._hear()
            for sent in reader.feed(received):
                event = self._taken(sent) if sent.data else None
                # Noted before it is handed out: an interrupted consumer has it already.
                self._last_event_id = sent.id if sent.id is not None else self._last_event_id
                if event is not None:
                    yield event

    def _pause(self, broken: PotluckError | HTTPError) -> None:
        patience = self._transport.patience
        error = translated(broken, self._transport.url)
        asked = asked_seconds(error)
        silent_seconds = time.monotonic() - self._heard_at
        lasting = not error.retryable or silent_seconds > patience.give_up_seconds
        if lasting or not patience.accepts(asked):
            raise error from broken
        if self._on_gap is not None:
            self._on_gap(error)
        time.sleep(patience.pause_seconds(self._failures, asked))
