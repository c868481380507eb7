"""A task's states and log, as they happen, over any number of connections.

Every event comes once and in order: a new connection names the last event that was taken. An
iteration that was interrupted (by Ctrl-C, say) is continued by iterating the same object again.
"""

import time
from collections.abc import Callable, Iterator

from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from potluck.consumer.sse import EventReader
from potluck.consumer.transport import Transport, asked_seconds, translated
from potluck.model.error import PotluckError
from potluck.wire.answer import decoded, not_potluck
from potluck.wire.consumer import FollowedState, FollowEvent

_READ_BYTES = 65_536
_EVENT: type[FollowEvent] = FollowEvent  # type: ignore[assignment]  # a union is a type to msgspec


class Follow:
    """The events of one task, until it is final and its log is complete.

    `on_gap` is called with an error for every line that broke, before the next try.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        on_gap: Callable[[PotluckError], None] | None = None,
    ):
        self._transport = transport
        self._path = path
        self._on_gap = on_gap
        self._last_event_id: str | None = None
        self._is_final = False

    def __iter__(self) -> Iterator[FollowEvent]:
        failures = 0
        heard_at = time.monotonic()
        while True:
            try:
                for event in self._one_connection():
                    failures, heard_at = 0, time.monotonic()
                    yield event
                if self._is_final:
                    return
                broken: PotluckError | HTTPError = HTTPError("The stream ended early.")
            except (PotluckError, HTTPError) as error:
                broken = error
            failures += 1
            self._pause(broken, failures, time.monotonic() - heard_at)

    def _one_connection(self) -> Iterator[FollowEvent]:
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

    def _events(self, response: BaseHTTPResponse) -> Iterator[FollowEvent]:
        reader = EventReader()
        while received := response.read1(_READ_BYTES):
            for sent in reader.feed(received):
                event: FollowEvent = decoded(sent.data.encode(), _EVENT, self._transport.url)
                if isinstance(event, FollowedState):
                    self._is_final = event.task.state.is_final
                # Noted before it is handed out: an interrupted consumer has it already.
                self._last_event_id = sent.id if sent.id is not None else self._last_event_id
                yield event

    def _pause(self, broken: PotluckError | HTTPError, failures: int, silent: float) -> None:
        patience = self._transport.patience
        error = translated(broken, self._transport.url)
        asked = asked_seconds(error)
        lasting = not error.retryable or silent > patience.give_up_seconds
        if lasting or not patience.accepts(asked):
            raise error from broken
        if self._on_gap is not None:
            self._on_gap(error)
        time.sleep(patience.pause_seconds(failures, asked))
