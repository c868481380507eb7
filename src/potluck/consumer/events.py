"""The events of an account's tasks and nodes, as a list and as a live stream."""

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlencode

from potluck.consumer.http.stream import SentEvent, Stream
from potluck.consumer.http.transport import Transport, build_path, call_api
from potluck.model.error import PotluckError
from potluck.model.event import EventKind
from potluck.wire import routes
from potluck.wire.events import GAP, EventGap, EventPage, EventView
from potluck.wire.response import decode_response

_PAGE = 200


class EventStream(Stream[EventView | EventGap]):
    """Endless: the reader decides when to stop.

    An EventGap says that events may be missing before the next one.
    """

    @property
    def position(self) -> str | None:
        """The cursor after the last event that was read, from which another program can continue.

        None before the server has said where the stream begins.
        """
        return self._last_event_id

    def _taken(self, sent: SentEvent) -> EventView | EventGap:
        if sent.kind == GAP:
            return decode_response(sent.data.encode(), EventGap, self._transport.url)
        return decode_response(sent.data.encode(), EventView, self._transport.url)


class Events:
    """Of one account at one server."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def list(
        self,
        limit: int | None = None,
        cursor: str | None = None,
        *,
        kinds: Sequence[EventKind] = (),
        task_id: str | None = None,
        newest_first: bool = False,
    ) -> EventPage:
        """A page of events, oldest first; pass `next_cursor` to get the page after it."""
        query = {
            "limit": limit,
            "cursor": cursor,
            "kind": tuple(kinds) or None,
            "task_id": task_id,
            "order": "newest" if newest_first else None,
        }
        return call_api(self._transport, routes.LIST_EVENTS, EventPage, query=query)

    def all(
        self,
        cursor: str | None = None,
        *,
        kinds: Sequence[EventKind] = (),
        task_id: str | None = None,
    ) -> Iterator[EventView]:
        """All present events after a position, oldest first, fetched page by page."""
        while True:
            page = self.list(_PAGE, cursor, kinds=kinds, task_id=task_id)
            yield from page.events
            cursor = page.next_cursor
            if len(page.events) < _PAGE:
                return

    def follow(
        self,
        cursor: str | None = None,
        *,
        kinds: Sequence[EventKind] = (),
        task_id: str | None = None,
        on_gap: Callable[[PotluckError], None] | None = None,
    ) -> EventStream:
        """Events as they happen, from now on or after a position. A lost connection is reopened;
        no event is lost or repeated.
        """
        query = [("kind", kind.value) for kind in kinds] + (
            [("task_id", task_id)] if task_id else []
        )
        path = build_path(routes.FOLLOW_EVENTS) + (f"?{urlencode(query)}" if query else "")
        return EventStream(self._transport, path, on_gap, cursor)
