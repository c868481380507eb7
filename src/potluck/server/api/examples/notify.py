"""Being told what happens, as it happens."""

from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from potluck.model.event import EventKind
from potluck.model.webhook import DeliveryState, PauseReason
from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.names import ATTEMPT, DELIVERY, EVENT, TASK, WEBHOOK, at
from potluck.wire import codec
from potluck.wire.events import EventPage, EventView
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
    "notify",
    "Being told: server-sent events that go on where they were cut, and webhooks.",
    {
        "follow_task": Example("Follow a task", answer=_STREAM),
        "list_events": Example("List events", answer=EventPage([_EVENT], "4711", "4711")),
        "follow_events": Example("Follow events", answer=_EVENTS),
        "list_webhooks": Example("List webhooks", answer=WebhookList([_WEBHOOK])),
        "make_webhook": Example(
            "Add a webhook",
            NewWebhook("https://receiver.example/potluck", kinds=(EventKind.TASK_FINISHED,)),
            WebhookMade(_SECRET, _WEBHOOK),
            also=(409,),
        ),
        "get_webhook": Example("Show a webhook", answer=_WEBHOOK),
        "change_webhook": Example("Change a webhook", ChangeWebhook(name="ci"), _RENAMED),
        "remove_webhook": Example("Remove a webhook"),
        "test_webhook": Example(
            "Try a webhook",
            answer=WebhookTried(EVENT, delivered=True, seconds=0.042, status=204),
        ),
        "rotate_webhook": Example("Rotate a secret", answer=WebhookMade(_SECRET, _ROTATED)),
        "pause_webhook": Example("Pause a webhook", answer=_PAUSED),
        "resume_webhook": Example("Resume a webhook", ResumeWebhook(skip_missed=True), _WEBHOOK),
        "list_deliveries": Example("List deliveries", answer=DeliveryPage([_DELIVERY], None)),
        "redeliver": Example("Deliver once more", answer=_DELIVERY),
    },
)
