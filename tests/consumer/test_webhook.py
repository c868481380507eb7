"""What a receiver believes: signed by the secret, now, and as it came."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

import potluck
from potluck import webhook
from potluck.model.error import BadSettings, UntrustedWebhook
from potluck.model.event import EventKind
from potluck.wire import codec
from potluck.wire.events import EventView
from potluck.wire.signing.webhook_signature import headers, key_of, new_secret

NOW = 1_800_000_000
SENT = EventView("event_1", EventKind.TASK_FINISHED, datetime(2027, 1, 1, tzinfo=UTC))
BODY = codec.encode_json(SENT)
EVENT = webhook.ReceivedEvent(SENT.id, SENT.kind, SENT.at)
SECRET, OTHER = new_secret(), new_secret()


def signed(
    *secrets: str, body: bytes = BODY, event_id: str = "event_1", timestamp: int = NOW
) -> Mapping[str, str]:
    keys = [key for secret in secrets if (key := key_of(secret)) is not None]
    return headers(keys, event_id, timestamp, body)


def test_an_event_that_is_ours_is_believed() -> None:
    assert webhook.verify(SECRET, signed(SECRET), BODY, now=NOW) == EVENT
    shouted = {name.upper(): value for name, value in signed(SECRET).items()}
    assert webhook.verify(SECRET, shouted, BODY, now=NOW + 299) == EVENT
    both = signed(OTHER, SECRET)
    assert webhook.verify(SECRET, both, BODY, now=NOW) == EVENT
    assert webhook.verify([OTHER, SECRET], signed(SECRET), BODY, now=NOW) == EVENT
    later_kinds = {**both, "webhook-signature": "v1a,eA== v2,x " + both["webhook-signature"]}
    assert webhook.verify(SECRET, later_kinds, BODY, now=NOW) == EVENT


def test_signatures_follow_the_standard_webhooks_specification() -> None:
    """By their own description, and not by our code."""
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    assert 24 <= len(key) <= 64
    digest = hmac.new(key, f"event_1.{NOW}.".encode() + BODY, hashlib.sha256).digest()
    signed_headers = signed(SECRET)
    assert signed_headers == {
        "webhook-id": "event_1",
        "webhook-timestamp": str(NOW),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def test_an_unknown_newer_kind_is_shown_unchanged() -> None:
    assert webhook.verify(SECRET, signed(SECRET), BODY, now=NOW).kind is EventKind.TASK_FINISHED
    newer = BODY.replace(b"task.finished", b"task.reborn").replace(b'"data":{}', b'"more":1')
    event = webhook.verify(SECRET, signed(SECRET, body=newer), newer, now=NOW)
    assert event.kind == "task.reborn" and event.id == EVENT.id


def test_a_received_event_has_every_sent_field() -> None:
    assert webhook.ReceivedEvent.__struct_fields__ == EventView.__struct_fields__


GOOD = signed(SECRET)
NOT_BELIEVED: dict[str, tuple[Mapping[str, str], bytes, float]] = {
    "no headers": ({}, BODY, NOW),
    "no signature": ({**GOOD, "webhook-signature": ""}, BODY, NOW),
    "another secret": (signed(OTHER), BODY, NOW),
    "another body": (GOOD, BODY + b" ", NOW),
    "another id": ({**GOOD, "webhook-id": "event_2"}, BODY, NOW),
    "another time": ({**GOOD, "webhook-timestamp": str(NOW + 1)}, BODY, NOW),
    "no time": ({**GOOD, "webhook-timestamp": "soon"}, BODY, NOW),
    "too late": (GOOD, BODY, NOW + 301),
    "too early": (GOOD, BODY, NOW - 301),
    "without its version": (
        {**GOOD, "webhook-signature": GOOD["webhook-signature"].removeprefix("v1,")},
        BODY,
        NOW,
    ),
    "letters of elsewhere": ({**GOOD, "webhook-signature": "v1,é"}, BODY, NOW),
    "no JSON": (signed(SECRET, body=b"{"), b"{", NOW),
    "no event": (signed(SECRET, body=b"{}"), b"{}", NOW),
    "an id that is not the event's": (signed(SECRET, event_id="event_9"), BODY, NOW),
}


@pytest.mark.parametrize("case", NOT_BELIEVED)
def test_anything_else_is_not(case: str) -> None:
    headers_given, body, now = NOT_BELIEVED[case]
    with pytest.raises(UntrustedWebhook) as error_info:
        webhook.verify(SECRET, headers_given, body, now=now)
    assert error_info.value.hint


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_?", "whsec_c2hvcnQ=", [], ["", SECRET]])
def test_a_secret_that_is_none_is_no_matter_of_the_event(secret: str | list[str]) -> None:
    with pytest.raises(BadSettings):
        webhook.verify(secret, GOOD, BODY, now=NOW)


def test_the_names_for_receivers_are_pinned() -> None:
    assert webhook.__all__ == ["ReceivedEvent", "UntrustedWebhook", "verify"]
    assert issubclass(webhook.UntrustedWebhook, potluck.PotluckError)
