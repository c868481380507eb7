"""For receivers of webhooks: verifies and decodes an event.

    event = potluck.webhook.verify(secret, request.headers, request.body)
    if event.id not in seen: ...

The body has to be the received bytes, not a decoded form of them. An event may arrive more than
once, always with the same id: remember the ids.
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
from potluck.wire.signing.webhook_signature import ID, SIGNATURE, TIMESTAMP, is_signed, key_of

__all__ = ["ReceivedEvent", "UntrustedWebhook", "verify"]

TOLERANCE_SECONDS = 300.0


class ReceivedEvent(Struct, frozen=True):
    """A received event. A pool that is newer than this program may send unknown kinds."""

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
    values = {name.lower(): value for name, value in headers.items()}
    event_id, timestamp, signature = (values.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
    if not (event_id and timestamp and signature):
        raise UntrustedWebhook(
            f"The request lacks one of the headers {ID}, {TIMESTAMP} and {SIGNATURE}.",
            "It is not an event of a pool, or a proxy has removed them.",
        )
    keys = _keys(secret)
    if not any(is_signed(key, signature, event_id, timestamp, body) for key in keys):
        raise UntrustedWebhook(
            "The signature was not made with this secret.",
            "Pass the body as the received bytes. If the secret was rotated, use the new one.",
        )
    _check_age(timestamp, tolerance_seconds, time.time() if now is None else now)
    return _event(event_id, body)


def _keys(secret: str | Sequence[str]) -> list[bytes]:
    keys = [key_of(text) for text in ([secret] if isinstance(secret, str) else secret)]
    valid = [key for key in keys if key is not None]
    if not valid or len(valid) < len(keys):
        raise BadSettings(
            "The secret is not the secret of a webhook.",
            "It begins with whsec_, and was shown when the webhook was created or rotated.",
        )
    return valid


def _check_age(timestamp: str, tolerance_seconds: float, now: float) -> None:
    """Prevents replays of old events. The timestamp is signed, so it is the server's."""
    if abs(now - int(timestamp)) > tolerance_seconds:
        raise UntrustedWebhook(
            f"The event was sent more than {tolerance_seconds:g} s ago, or in the future.",
            "Check the clocks of both machines; a repeated delivery is signed again.",
        )


def _event(event_id: str, body: bytes) -> ReceivedEvent:
    try:
        event = codec.decode_json(body, ReceivedEvent)
    except InvalidInput as error:
        raise UntrustedWebhook(
            f"The event is signed, but cannot be decoded: {error.detail}",
            "The pool may be newer than this program: upgrade potluck.",
        ) from error
    if event.id != event_id:
        raise UntrustedWebhook("The event's id differs from its request's.", "Ignore it.")
    return event
