"""Events, event streams and webhooks."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Final

from litestar.params import HeaderParameter, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage
from msgspec import UNSET
from msgspec.structs import replace

from potluck.model.account import Scope
from potluck.model.error import Conflict, DestinationRefused, InvalidInput, NotFound, QuotaExceeded
from potluck.model.event import EventKind
from potluck.model.webhook import DeliveryState, PauseReason
from potluck.server.api.area import Area
from potluck.server.api.examples.names import ATTEMPT, DELIVERY, EVENT, TASK, WEBHOOK, at
from potluck.server.api.http.event_stream import stream
from potluck.server.api.http.pagination import Cursor, Limit, check_cursor, next_page
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
# A credential that may read tasks gets events of tasks, and no others.
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
        description="A position: `next_cursor` of a page, or the last id of a stream.",
    ),
]
Kinds = Annotated[
    list[EventKind] | None,
    QueryParameter(
        name="kind",
        max_items=len(EventKind),
        required=False,
        description="Only events of these kinds.",
    ),
]
OfTask = Annotated[str | None, QueryParameter(name="task_id", max_length=64, required=False)]
First = Annotated[
    EventOrder,
    QueryParameter(name="order", description="The sort order; `newest` pages back in time."),
]

# Examples.
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
# A made-up secret of the right length.
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

AREA: Final = Area("notify", "Notifications: resumable server-sent events, and webhooks.")


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
    """Streams states and log pieces. `Last-Event-ID` resumes an interrupted stream."""
    wanted = task_id_of(task_id)
    # An unknown id is a 404 now, not an error in the middle of a stream.
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
    """Lists events of your tasks and nodes. Oldest first, `next_cursor` also reads later events."""
    account_id, position = request.user.id, position_of(cursor)
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
    """Streams events, from now on or after a cursor. `Last-Event-ID` resumes an interrupted
    stream."""
    position = position_of(cursor if last_event_id is None else last_event_id)
    wanted = _wanted(request.user, kinds, of_task)
    followed = event_stream.follow(services, request.user.id, wanted, position)
    return stream(request, followed, _event_message)


@AREA.operation(
    routes.LIST_WEBHOOKS, Scope.ACCOUNT_WRITE, "List webhooks", response=WebhookList([_WEBHOOK])
)
async def list_webhooks(
    request: CallerRequest, services: Services, cursor: Cursor = None, limit: Limit = 500
) -> WebhookList:
    """Lists your webhooks, oldest first, with their delivery status."""
    check_cursor(cursor, "webhook")
    page = await webhooks.list_page(services, request.user.id, cursor, limit)
    return WebhookList(*next_page(page, limit))


@AREA.operation(
    routes.MAKE_WEBHOOK,
    Scope.ACCOUNT_WRITE,
    "Add a webhook",
    request=NewWebhook("https://receiver.example/potluck", kinds=(EventKind.TASK_FINISHED,)),
    response=WebhookMade(_SECRET, _WEBHOOK),
    errors=(NotFound, Conflict, DestinationRefused, QuotaExceeded),
)
async def make_webhook(
    data: NewWebhook,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> WebhookMade:
    """Adds a webhook for future events. Only this response contains its secret."""
    account_id = request.user.id
    idempotent = idempotent_secret.idempotent_request(
        services, account_id, "make_webhook", idempotency_key, data
    )
    return await webhooks.create(services, account_id, data, idempotent)


@AREA.operation(routes.GET_WEBHOOK, Scope.ACCOUNT_WRITE, "Show a webhook", response=_WEBHOOK)
async def get_webhook(webhook_id: str, request: CallerRequest, services: Services) -> WebhookView:
    """Returns one webhook with its delivery status."""
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
    """Changes the address, name or event kinds. Omitted fields stay.

    A new address clears the failure state: pending events are sent immediately.
    """
    if data.url is not UNSET:
        await services.limiter.check_webhook_call(request.user.id)
    return await webhooks.change(services, request.user.id, webhook_id, data)


@AREA.operation(routes.REMOVE_WEBHOOK, Scope.ACCOUNT_WRITE, "Remove a webhook")
async def remove_webhook(webhook_id: str, request: CallerRequest, services: Services) -> None:
    """Removes a webhook and its delivery log."""
    await webhooks.remove(services, request.user.id, webhook_id)


@AREA.operation(
    routes.TEST_WEBHOOK,
    Scope.ACCOUNT_WRITE,
    "Test a webhook",
    response=WebhookTried(EVENT, delivered=True, seconds=0.042, status=204),
    errors=(DestinationRefused,),
    status_code=200,
    is_timed=False,
)
async def test_webhook(webhook_id: str, request: CallerRequest, services: Services) -> WebhookTried:
    """Sends a `webhook.test` event now, and returns the receiver's response."""
    await services.limiter.check_webhook_call(request.user.id)
    return await webhooks.test(services, request.user.id, webhook_id)


@AREA.operation(
    routes.ROTATE_WEBHOOK,
    Scope.ACCOUNT_WRITE,
    "Rotate a secret",
    response=WebhookMade(_SECRET, _ROTATED),
    errors=(Conflict,),
    status_code=200,
)
async def rotate_webhook(
    webhook_id: str,
    request: CallerRequest,
    services: Services,
    idempotency_key: IdempotencyKey = None,
) -> WebhookMade:
    """Makes a new secret. For one day events are signed with both, so that you can switch."""
    account_id = request.user.id
    idempotent = idempotent_secret.idempotent_request(
        services, account_id, "rotate_webhook", idempotency_key, webhook_id
    )
    return await webhooks.rotate(services, account_id, webhook_id, idempotent)


@AREA.operation(
    routes.PAUSE_WEBHOOK, Scope.ACCOUNT_WRITE, "Pause a webhook", response=_PAUSED, status_code=200
)
async def pause_webhook(webhook_id: str, request: CallerRequest, services: Services) -> WebhookView:
    """Pauses delivery. Events wait until the webhook is resumed."""
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
    """Resumes delivery of waiting events, or skips them."""
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
    """Lists deliveries, newest first, with the result of each try."""
    check_cursor(cursor, "delivery")
    return await webhooks.deliveries_of(services, request.user.id, webhook_id, cursor, limit)


@AREA.operation(
    routes.REDELIVER,
    Scope.ACCOUNT_WRITE,
    "Redeliver an event",
    response=_DELIVERY,
    errors=(QuotaExceeded,),
    status_code=200,
)
async def redeliver(
    webhook_id: str, delivery_id: str, request: CallerRequest, services: Services
) -> DeliveryView:
    """Sends the same event again now, with the same id. A pending delivery is tried immediately."""
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
    if followed.content is None:
        return ServerSentEventMessage(data=None, id=position, comment="still here")
    kind = GAP if isinstance(followed.content, EventGap) else followed.content.kind.value
    data = codec.encode_json(followed.content).decode()
    return ServerSentEventMessage(event=kind, id=position, data=data)


def _wanted(caller: Caller, kinds: list[EventKind] | None, of_task: str | None) -> EventFilter:
    task_id = None if of_task is None else wanted_task(of_task)
    chosen = tuple(dict.fromkeys(kinds or ()))
    if Scope.ACCOUNT_READ in caller.scopes:
        return EventFilter(chosen, task_id)
    # The credential may read tasks only.
    if not all(kind.is_of_task for kind in chosen):
        raise lacks_scope(caller.credential, [Scope.ACCOUNT_READ])
    return EventFilter(chosen or _OF_TASKS, task_id)


def position_of(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise InvalidInput(
            "The cursor is not a position in the events.",
            "Use `next_cursor` of a page, or the last id of a stream.",
        )
    return int(text)
