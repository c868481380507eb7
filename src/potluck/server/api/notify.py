"""Being told what happens, as it happens."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from litestar.params import HeaderParameter, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage
from msgspec import UNSET
from msgspec.structs import replace

from potluck.model.account import Scope
from potluck.model.error import Conflict, DestinationRefused, InvalidInput
from potluck.model.event import EventKind
from potluck.model.webhook import DeliveryState, PauseReason
from potluck.server.api.area import Area
from potluck.server.api.examples.names import ATTEMPT, DELIVERY, EVENT, TASK, WEBHOOK, at
from potluck.server.api.http.event_stream import stream
from potluck.server.api.http.pagination import Cursor, Limit, check_cursor
from potluck.server.api.http.parameters import (
    CallerRequest,
    IdempotencyKey,
    task_id_of,
    wanted_task,
)
from potluck.server.auth import idempotent_secret
from potluck.server.auth.caller import Caller, lacks_scope
from potluck.server.flow.notify import event_stream, task_stream, webhooks
from potluck.server.services import Services
from potluck.store.events.event_list import EventFilter
from potluck.wire import codec, routes
from potluck.wire.consumer import FollowedLog
from potluck.wire.events import GAP, EventGap, EventPage, EventView
from potluck.wire.webhooks import (
    ChangeWebhook,
    DeliveryPage,
    DeliveryView,
    NewWebhook,
    Pause,
    ResumeWebhook,
    TryView,
    WebhookList,
    WebhookMade,
    WebhookTried,
    WebhookView,
)

LastEventId = Annotated[
    str | None, HeaderParameter(name="Last-Event-ID", max_length=200, required=False)
]
# A program that may read its tasks is told of them, and of nothing else.
_EVENT_SCOPES = (Scope.ACCOUNT_READ, Scope.TASKS_READ)
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
OfTask = Annotated[str | None, QueryParameter(name="task_id", max_length=64, required=False)]
First = Annotated[
    EventOrder,
    QueryParameter(name="order", description="What comes first; `newest` pages back in time."),
]

# For the examples.
_STREAM = (
    "event: state\r\n"
    "id: 3..0\r\n"
    f'data: {{"event":"state","task":{{"id":"{TASK}","state":"running"}}}}\r\n'
    "\r\n"
    "event: log\r\n"
    f"id: 3.{ATTEMPT}.1\r\n"
    'data: {"event":"log","page":{"offset":0,"next_offset":1}}\r\n'
    "\r\n"
)
_EVENT = EventView(
    EVENT,
    EventKind.TASK_FINISHED,
    at(12, 0, 9),
    TASK,
    "hello.py",
    data={"state": "succeeded", "reason": "completed"},
)
_EVENTS = (
    ": still here\r\nid: 4710\r\n\r\n"
    f"event: task.finished\r\nid: 4711\r\ndata: {codec.encode_json(_EVENT).decode()}\r\n\r\n"
)
# Of no webhook; as long as one.
_SECRET = "whsec_" + "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
_WEBHOOK = WebhookView(
    WEBHOOK,
    "receiver.example",
    "https://receiver.example/potluck",
    [EventKind.TASK_FINISHED],
    at(11, 0),
)
_RENAMED = replace(_WEBHOOK, name="ci")
_PAUSED = replace(_WEBHOOK, pause=Pause(at(12, 30), PauseReason.OWNER))
_ROTATED = replace(_WEBHOOK, old_secret_until=at(12, 30) + timedelta(days=1))
_DELIVERY = DeliveryView(
    DELIVERY,
    EVENT,
    EventKind.TASK_FINISHED,
    DeliveryState.PENDING,
    at(12, 0, 9),
    TASK,
    1,
    [TryView(1, at(12, 0, 9), 0.031, 503, "It answered 503.")],
    at(12, 0, 14),
)

AREA: Final = Area(
    "notify", "Being told: server-sent events that go on where they were cut, and webhooks."
)


@AREA.operation(
    routes.FOLLOW_TASK,
    Scope.TASKS_READ,
    "Follow a task",
    response=_STREAM,
    media_type="text/event-stream",
)
async def follow_task(
    task_id: str, request: CallerRequest, services: Services, last_event_id: LastEventId = None
) -> ServerSentEvent:
    """States and log pieces as they come; `Last-Event-ID` goes on where a stream was cut."""
    wanted = task_id_of(task_id)
    # An id that is not yours is a 404 now, not an error in the middle of a stream.
    await task_stream.view(services, request.user.id, wanted)
    position = task_stream.parse_position(last_event_id)
    followed = task_stream.follow(services, request.user.id, wanted, position)
    return stream(request, followed, _task_message)


@AREA.operation(
    routes.LIST_EVENTS, _EVENT_SCOPES, "List events", response=EventPage([_EVENT], "4711", "4711")
)
async def list_events(
    request: CallerRequest,
    services: Services,
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
        return await event_stream.newest(services, account_id, wanted, position, limit)
    return await event_stream.page(services, account_id, wanted, position or 0, limit)


@AREA.operation(
    routes.FOLLOW_EVENTS,
    _EVENT_SCOPES,
    "Follow events",
    response=_EVENTS,
    media_type="text/event-stream",
)
async def follow_events(
    request: CallerRequest,
    services: Services,
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
    followed = event_stream.follow(services, request.user.id, wanted, position)
    return stream(request, followed, _event_message)


@AREA.operation(
    routes.LIST_WEBHOOKS, Scope.ACCOUNT_WRITE, "List webhooks", response=WebhookList([_WEBHOOK])
)
async def list_webhooks(request: CallerRequest, services: Services) -> WebhookList:
    """Your webhooks, oldest first, and how each of them does."""
    return WebhookList(await webhooks.show_all(services, request.user.id))


@AREA.operation(
    routes.MAKE_WEBHOOK,
    Scope.ACCOUNT_WRITE,
    "Add a webhook",
    request=NewWebhook("https://receiver.example/potluck", kinds=(EventKind.TASK_FINISHED,)),
    response=WebhookMade(_SECRET, _WEBHOOK),
    errors=(Conflict, DestinationRefused),
)
async def make_webhook(
    data: NewWebhook,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> WebhookMade:
    """What happens from now on is sent there. The secret is in this answer and nowhere else."""
    account_id = request.user.id
    asked = idempotent_secret.asked(services, account_id, "make_webhook", idempotency_key, data)
    return await webhooks.make(services, account_id, data, asked)


@AREA.operation(routes.GET_WEBHOOK, Scope.ACCOUNT_WRITE, "Show a webhook", response=_WEBHOOK)
async def get_webhook(webhook_id: str, request: CallerRequest, services: Services) -> WebhookView:
    """One of them, and how it does."""
    return await webhooks.show(services, request.user.id, webhook_id)


@AREA.operation(
    routes.CHANGE_WEBHOOK,
    Scope.ACCOUNT_WRITE,
    "Change a webhook",
    request=ChangeWebhook(name="ci"),
    response=_RENAMED,
    errors=(DestinationRefused,),
)
async def change_webhook(
    webhook_id: str, data: ChangeWebhook, request: CallerRequest, services: Services
) -> WebhookView:
    """Another address, name or choice of kinds; what is left out stays.

    At another address nothing has failed yet: what waits is tried at once.
    """
    if data.url is not UNSET:
        await services.limiter.check_webhook_call(request.user.id)
    return await webhooks.change(services, request.user.id, webhook_id, data)


@AREA.operation(routes.REMOVE_WEBHOOK, Scope.ACCOUNT_WRITE, "Remove a webhook")
async def remove_webhook(webhook_id: str, request: CallerRequest, services: Services) -> None:
    """Nothing is sent there any more, and its log goes with it."""
    await webhooks.remove(services, request.user.id, webhook_id)


@AREA.operation(
    routes.TEST_WEBHOOK,
    Scope.ACCOUNT_WRITE,
    "Try a webhook",
    response=WebhookTried(EVENT, delivered=True, seconds=0.042, status=204),
    errors=(DestinationRefused,),
    status_code=200,
)
async def test_webhook(webhook_id: str, request: CallerRequest, services: Services) -> WebhookTried:
    """Sends a `webhook.test` now, and answers with what came back."""
    await services.limiter.check_webhook_call(request.user.id)
    return await webhooks.test(services, request.user.id, webhook_id)


@AREA.operation(
    routes.ROTATE_WEBHOOK,
    Scope.ACCOUNT_WRITE,
    "Rotate a secret",
    response=WebhookMade(_SECRET, _ROTATED),
    status_code=200,
)
async def rotate_webhook(
    webhook_id: str,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> WebhookMade:
    """A new secret. For a day the old one signs as well, so that you can change over."""
    account_id = request.user.id
    asked = idempotent_secret.asked(
        services, account_id, "rotate_webhook", idempotency_key, webhook_id
    )
    return await webhooks.rotate(services, account_id, webhook_id, asked)


@AREA.operation(
    routes.PAUSE_WEBHOOK, Scope.ACCOUNT_WRITE, "Pause a webhook", response=_PAUSED, status_code=200
)
async def pause_webhook(webhook_id: str, request: CallerRequest, services: Services) -> WebhookView:
    """Nothing is sent until it is resumed; what happens meanwhile waits."""
    return await webhooks.pause(services, request.user.id, webhook_id)


@AREA.operation(
    routes.RESUME_WEBHOOK,
    Scope.ACCOUNT_WRITE,
    "Resume a webhook",
    request=ResumeWebhook(skip_missed=True),
    response=_WEBHOOK,
    status_code=200,
)
async def resume_webhook(
    webhook_id: str,
    request: CallerRequest,
    services: Services,
    data: ResumeWebhook = ResumeWebhook(),  # noqa: B008 - it is frozen
) -> WebhookView:
    """Goes on where it was, or skips what was missed."""
    account_id, skip = request.user.id, data.skip_missed
    await services.limiter.check_webhook_call(account_id)
    return await webhooks.resume(services, account_id, webhook_id, skip_missed=skip)


@AREA.operation(
    routes.LIST_DELIVERIES,
    Scope.ACCOUNT_WRITE,
    "List deliveries",
    response=DeliveryPage([_DELIVERY], None),
)
async def list_deliveries(
    webhook_id: str,
    request: CallerRequest,
    services: Services,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> DeliveryPage:
    """What was sent there or waits to be, newest first, with what came of each try."""
    check_cursor(cursor, "delivery")
    return await webhooks.deliveries_of(services, request.user.id, webhook_id, cursor, limit)


@AREA.operation(
    routes.REDELIVER, Scope.ACCOUNT_WRITE, "Deliver once more", response=_DELIVERY, status_code=200
)
async def redeliver(
    webhook_id: str, delivery_id: str, request: CallerRequest, services: Services
) -> DeliveryView:
    """The same event, with the same id, once more and now; one that still waits is hurried."""
    await services.limiter.check_webhook_call(request.user.id)
    return await webhooks.redeliver(services, request.user.id, webhook_id, delivery_id)


def _task_message(followed: task_stream.TaskStreamItem) -> ServerSentEventMessage:
    if followed.event is None:
        return ServerSentEventMessage(data=None, comment="still here")
    return ServerSentEventMessage(
        event="log" if isinstance(followed.event, FollowedLog) else "state",
        id=str(followed.position),
        data=codec.encode_json(followed.event).decode(),
    )


def _event_message(followed: event_stream.EventStreamItem) -> ServerSentEventMessage:
    position = str(followed.position)
    if followed.said is None:
        return ServerSentEventMessage(data=None, id=position, comment="still here")
    kind = GAP if isinstance(followed.said, EventGap) else followed.said.kind.value
    data = codec.encode_json(followed.said).decode()
    return ServerSentEventMessage(event=kind, id=position, data=data)


def _wanted(caller: Caller, kinds: list[EventKind] | None, of_task: str | None) -> EventFilter:
    task_id = None if of_task is None else wanted_task(of_task)
    chosen = tuple(dict.fromkeys(kinds or ()))
    if Scope.ACCOUNT_READ in caller.scopes:
        return EventFilter(chosen, task_id)
    # Who was let in for its tasks hears of nothing else.
    if not all(kind.is_of_task for kind in chosen):
        raise lacks_scope(caller.credential, [Scope.ACCOUNT_READ])
    return EventFilter(chosen or _OF_TASKS, task_id)


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
