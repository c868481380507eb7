"""Messages about webhooks and their deliveries."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from potluck.model.bounded_types import END
from potluck.model.event import EventKind
from potluck.model.ids import TaskId, TaskIdText
from potluck.model.webhook import DeliveryState, PauseReason
from potluck.wire.identity import NameText

UrlText = Annotated[str, Meta(min_length=1, max_length=2_048, pattern=f"^[!-~]*{END}")]
Kinds = Annotated[tuple[EventKind, ...], Meta(max_length=50)]


class NewWebhook(Struct, frozen=True, forbid_unknown_fields=True):
    """A new webhook; without `kinds` for all kinds of events, without `task_id` for all tasks."""

    url: UrlText
    name: NameText | None = None  # by default the host of the address
    kinds: Kinds = ()
    task_id: TaskIdText | None = None


class ChangeWebhook(Struct, frozen=True, forbid_unknown_fields=True):
    """Omitted fields stay. An empty `kinds` selects all kinds."""

    url: UrlText | UnsetType = UNSET
    name: NameText | UnsetType = UNSET
    kinds: Kinds | UnsetType = UNSET


class ResumeWebhook(Struct, frozen=True, forbid_unknown_fields=True):
    """By default all events since the pause are sent."""

    skip_missed: bool = False


class Pause(Struct, frozen=True):
    at: datetime
    reason: PauseReason
    detail: str = ""


class WebhookView(Struct, frozen=True):
    id: str
    name: str
    url: str
    kinds: list[EventKind]  # empty: all
    created_at: datetime
    task_id: TaskId | None = None
    pause: Pause | None = None
    failing_since: datetime | None = None  # the time of the first failure since the last success
    next_try_at: datetime | None = None  # while it fails
    waiting: int = 0  # the number of pending deliveries
    old_secret_until: datetime | None = None  # until then the previous secret also signs


class WebhookList(Struct, frozen=True):
    webhooks: list[WebhookView]
    next_cursor: str | None = None


class WebhookMade(Struct, frozen=True):
    """Only this response contains the secret."""

    secret: str
    webhook: WebhookView


class WebhookTried(Struct, frozen=True):
    """The result of sending a `webhook.test` event."""

    event_id: str
    delivered: bool
    seconds: float
    status: int | None = None  # none: no response
    detail: str = ""  # the error
    answer: str = ""  # the start of the response's body


class TryView(Struct, frozen=True):
    number: int
    at: datetime
    seconds: float
    status: int | None = None
    detail: str = ""


class DeliveryView(Struct, frozen=True):
    """The delivery of one event to one webhook, with its newest tries, newest first."""

    id: str
    event_id: str
    kind: EventKind
    state: DeliveryState
    created_at: datetime
    task_id: TaskId | None = None
    tries: int = 0
    newest_tries: list[TryView] = msgspec.field(default_factory=list)
    next_try_at: datetime | None = None  # while it is pending and the webhook is not paused
    ended_at: datetime | None = None


class DeliveryPage(Struct, frozen=True):
    """Deliveries, newest first."""

    deliveries: list[DeliveryView]
    next_cursor: str | None = None
