"""What an account is told: a list to read on in, and a stream."""

from enum import StrEnum
from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.params import QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from potluck.model.account import Scope
from potluck.model.error import InvalidInput
from potluck.model.event import EventKind
from potluck.server.api.stream import stream
from potluck.server.api.tasks import LastEventId, wanted_task
from potluck.server.auth.caller import Caller, lacks_scope
from potluck.server.flow.notify import event_stream
from potluck.server.flow.notify.event_stream import Followed
from potluck.server.services import Parts
from potluck.store.events.event_list import Wanted
from potluck.wire import codec, routes
from potluck.wire.events import GAP, EventGap, EventPage

_OF_TASKS = tuple(kind for kind in EventKind if kind.is_of_task)


class EventOrder(StrEnum):
    OLDEST = "oldest"
    NEWEST = "newest"


Position = Annotated[
    str | None,
    QueryParameter(
        name="cursor",
        max_length=64,
        required=False,
        description="A position: `next_cursor` of a page, or the id that a stream sent last.",
    ),
]
Kinds = Annotated[
    list[EventKind] | None,
    QueryParameter(
        name="kind", max_items=len(EventKind), required=False, description="Only of these kinds."
    ),
]
OfTask = Annotated[
    str | None,
    QueryParameter(name="task_id", max_length=64, required=False),
]
First = Annotated[
    EventOrder,
    QueryParameter(name="order", description="What comes first; `newest` pages back in time."),
]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=500, description="At most so many.")]


class EventController(Controller):
    @get(routes.LIST_EVENTS.template, operation_id="list_events")
    async def list_events(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
        cursor: Position = None,
        kinds: Kinds = None,
        of_task: OfTask = None,
        first: First = EventOrder.OLDEST,
        limit: Limit = 50,
    ) -> EventPage:
        """What happened to what is yours. Oldest first, `next_cursor` reads on, also later."""
        account_id, position = request.user.id, _position(cursor)
        wanted = _wanted(request.user, kinds, of_task)
        if first is EventOrder.NEWEST:
            return await event_stream.newest(parts, account_id, wanted, position, limit)
        return await event_stream.page(parts, account_id, wanted, position or 0, limit)

    @get(
        routes.FOLLOW_EVENTS.template, operation_id="follow_events", media_type="text/event-stream"
    )
    async def follow_events(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
        cursor: Position = None,
        kinds: Kinds = None,
        of_task: OfTask = None,
        last_event_id: LastEventId = None,
    ) -> ServerSentEvent:
        """The same as it happens, from now on or behind a cursor; `Last-Event-ID` goes on where
        a stream was cut.
        """
        position = _position(cursor if last_event_id is None else last_event_id)
        wanted = _wanted(request.user, kinds, of_task)
        followed = event_stream.follow(parts, request.user.id, wanted, position)
        return stream(request, followed, _message)


def _message(followed: Followed) -> ServerSentEventMessage:
    position = str(followed.position)
    if followed.said is None:
        return ServerSentEventMessage(data=None, id=position, comment="still here")
    kind = GAP if isinstance(followed.said, EventGap) else followed.said.kind.value
    data = codec.encode_json(followed.said).decode()
    return ServerSentEventMessage(event=kind, id=position, data=data)


def _wanted(caller: Caller, kinds: list[EventKind] | None, of_task: str | None) -> Wanted:
    task_id = None if of_task is None else wanted_task(of_task)
    chosen = tuple(dict.fromkeys(kinds or ()))
    if Scope.ACCOUNT_READ in caller.scopes:
        return Wanted(chosen, task_id)
    # Who was let in for its tasks hears of nothing else.
    if not all(kind.is_of_task for kind in chosen):
        raise lacks_scope(caller.credential, [Scope.ACCOUNT_READ])
    return Wanted(chosen or _OF_TASKS, task_id)


def _position(text: str | None) -> int | None:
    """Ours are numbers that fit a column."""
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidInput(
            "That is no position among the events.",
            "Use `next_cursor` of a page, or the id that a stream sent last.",
        )
    return int(text)
