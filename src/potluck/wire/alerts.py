"""Messages about alerts and errors, for admins."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.alert import AlertName, AlertState
from potluck.model.bounded_types import LineText, ShortText
from potluck.model.ids import AccountId, NodeId

LONGEST_SILENCE_SECONDS = 366 * 86_400


class AlertView(Struct, frozen=True):
    """Something that is or was wrong."""

    id: int
    name: AlertName
    subject: str  # a node, a device, an instance, an account, or `pool`
    state: AlertState
    detail: str
    began_at: datetime  # when its condition was first seen
    fired_at: datetime | None = None
    resolved_at: datetime | None = None
    notified_at: datetime | None = None  # when the last message that it fires was made
    node_id: NodeId | None = None
    is_silenced: bool = False  # no messages are sent about it now


class SilenceView(Struct, frozen=True):
    """Matching alerts are not sent until it ends."""

    id: str
    name: AlertName | None  # null: every alert
    subject: str | None  # null: every subject
    until: datetime
    author_id: AccountId
    comment: str
    created_at: datetime


class AlertPage(Struct, frozen=True):
    """Alerts, newest first, and the silences in effect."""

    alerts: list[AlertView]
    silences: list[SilenceView]
    next_cursor: int | None = None


class NewSilence(Struct, frozen=True, forbid_unknown_fields=True):
    name: AlertName | None = None  # null: every alert
    subject: ShortText | None = None  # a node, a device or an instance; null: every one
    seconds: Annotated[float, Meta(gt=0, le=LONGEST_SILENCE_SECONDS)] = 7_200.0
    comment: LineText = ""


class AlertTestResult(Struct, frozen=True):
    """Whether a test message arrived at one destination."""

    destination: str  # its number and service; its address is a secret
    has_arrived: bool
    seconds: float
    problem: str = ""  # why not


class AlertTest(Struct, frozen=True):
    results: list[AlertTestResult]


class ErrorGroup(Struct, frozen=True):
    """Errors of one kind at one place in the code."""

    fingerprint: str
    kind: str  # the class of the exception, or `logged`
    place: str  # the function that raised it
    message: str  # of the last one, without secrets
    trace: str
    instance: str  # where the last one was
    occurrences: int
    first_at: datetime
    last_at: datetime


class ErrorPage(Struct, frozen=True):
    """Groups of errors, the latest first."""

    errors: list[ErrorGroup]
