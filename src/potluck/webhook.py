"""For whoever receives webhooks: is this event from my pool, and what does it say?

    event = potluck.webhook.verify(secret, request.headers, request.body)
    if event.id not in seen: ...

The body has to be the bytes that came, not what a framework made of them. An event may come more
than once, always with the same id; that is what to remember.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from potluck.model.error import BadSettings, InvalidInput, UntrustedWebhook
from potluck.model.event import EventKind
from potluck.wire import codec
from potluck.wire.signing.webhook_signature import (
    ID,
    SIGNATURE,
    TIMESTAMP,
    is_signed,
    key_of,
)

__all__ = ["ReceivedEvent", "UntrustedWebhook", "verify"]

TOLERANCE_SECONDS = 300.0


class ReceivedEvent(Struct, frozen=True):
    """An event as it came. A pool that is newer than this program may send kinds that are new."""

    id: str
    kind: str  # an EventKind, if this version knows it
    at: datetime
    task_id: str | None = None
    task_name: str | None = None
    node_id: str | None = None
    data: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.kind in tuple(EventKind):
            force_setattr(self, "kind", EventKind(self.kind))


def verify(
    secret: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> ReceivedEvent:
    """The event, if it is signed with the secret (or one of several) and not too old.

    Raises UntrustedWebhook: answer that with 400 and do nothing. `now` is in seconds since 1970.
    """
    said = {name.lower(): value for name, value in headers.items()}
    event_id, timestamp, given = (said.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
    if not (event_id and timestamp and given):
        raise UntrustedWebhook(
            f"The request lacks one of the headers {ID}, {TIMESTAMP} and {SIGNATURE}.",
            "It is not an event of a pool, or something on the way has removed them.",
        )
    keys = _keys(secret)
    if not any(is_signed(key, given, event_id, timestamp, body) for key in keys):
        raise UntrustedWebhook(
            "The signature is not by this secret.",
            "Give the body as the bytes that came. If the secret was rotated, use the new one.",
        )
    _check_age(timestamp, tolerance_seconds, time.time() if now is None else now)
    return _event(event_id, body)


def _keys(secret: str | Sequence[str]) -> list[bytes]:
    keys = [key_of(each) for each in ([secret] if isinstance(secret, str) else secret)]
    known = [key for key in keys if key is not None]
    if not known or len(known) < len(keys):
        raise BadSettings(
            "What was given as the secret of a webhook is none.",
            "It begins with whsec_, and was shown when the webhook was made or rotated.",
        )
    return known


def _check_age(timestamp: str, tolerance_seconds: float, now: float) -> None:
    """So that what somebody has overheard is worth nothing later. It is signed, so it is ours."""
    if abs(now - int(timestamp)) > tolerance_seconds:
        raise UntrustedWebhook(
            f"The event was sent more than {tolerance_seconds:g} s ago, or in the future.",
            "Check the clocks of both machines; an event that is tried again is signed anew.",
        )


def _event(event_id: str, body: bytes) -> ReceivedEvent:
    try:
        event = codec.decode_json(body, ReceivedEvent)
    except InvalidInput as error:
        raise UntrustedWebhook(
            f"The event is signed, and not understood: {error.detail}",
            "The pool may be newer than this program: upgrade potluck.",
        ) from error
    if event.id != event_id:
        raise UntrustedWebhook("The event has another id than its request.", "Do nothing with it.")
    return event
