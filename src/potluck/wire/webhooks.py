"""Messages about webhooks: where an account wants to be told, and what came of telling it."""

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
    """An address to be told at: of all kinds of events, or of these; of all tasks, or of one."""

    url: UrlText
    name: NameText | None = None  # the host of the address, if not said
    kinds: Kinds = ()
    task_id: TaskIdText | None = None


class ChangeWebhook(Struct, frozen=True, forbid_unknown_fields=True):
    """What is left out stays as it is. Without kinds, all are wanted."""

    url: UrlText | UnsetType = UNSET
    name: NameText | UnsetType = UNSET
    kinds: Kinds | UnsetType = UNSET


class ResumeWebhook(Struct, frozen=True, forbid_unknown_fields=True):
    """All that happened meanwhile is sent, unless it is to be skipped."""

    skip_missed: bool = False


class Pause(Struct, frozen=True):
    at: datetime
    reason: PauseReason
    detail: str = ""


class WebhookView(Struct, frozen=True):
    id: str
    name: str
    url: str
    kinds: list[EventKind]  # none: all
    created_at: datetime
    task_id: TaskId | None = None
    pause: Pause | None = None
    failing_since: datetime | None = None  # no success since then
    next_try_at: datetime | None = None  # while it fails
    waiting: int = 0  # deliveries that are on their way or wait
    old_secret_until: datetime | None = None  # the secret before also signs


class WebhookList(Struct, frozen=True):
    webhooks: list[WebhookView]


class WebhookMade(Struct, frozen=True):
    """The secret is in this answer and nowhere else."""

    secret: str
    webhook: WebhookView


class WebhookTried(Struct, frozen=True):
    """What came back for an event of the kind `webhook.test`."""

    event_id: str
    delivered: bool
    seconds: float
    status: int | None = None  # none: no answer
    detail: str = ""  # what went wrong
    answer: str = ""  # how what came back begins


class TryView(Struct, frozen=True):
    number: int
    at: datetime
    seconds: float
    status: int | None = None
    detail: str = ""


class DeliveryView(Struct, frozen=True):
    """One event on its way to one webhook, with what came of its newest tries, newest first."""

    id: str
    event_id: str
    kind: EventKind
    state: DeliveryState
    created_at: datetime
    task_id: TaskId | None = None
    tries: int = 0
    newest_tries: list[TryView] = msgspec.field(default_factory=list)
    next_try_at: datetime | None = None  # while it is pending, and the webhook not paused
    ended_at: datetime | None = None


class DeliveryPage(Struct, frozen=True):
    """Newest first."""

    deliveries: list[DeliveryView]
    next_cursor: str | None = None
