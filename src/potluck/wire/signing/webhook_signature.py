"""Signatures of events, compatible with the libraries of Standard Webhooks.

The header `webhook-signature` has `v1,` and the HMAC-SHA256, in base64, of `id.timestamp.body`.
After a rotation it has two, separated by a space: by the new secret and by the old one.
"""

import base64
import binascii
import hmac
import secrets
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "whsec_"
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_VERSION: Final = "v1"
_SECRET_BYTES: Final = 32
_LEAST_BYTES: Final = 16


def new_secret() -> str:
    return secret_of(secrets.token_bytes(_SECRET_BYTES))


def secret_of(key: bytes) -> str:
    return PREFIX + base64.b64encode(key).decode()


def key_of(secret: str) -> bytes | None:
    """The key of a secret; None if it is malformed."""
    try:
        key = base64.b64decode(secret.strip().removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) >= _LEAST_BYTES else None


def headers(keys: Iterable[bytes], event_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    made = [signature(key, event_id, str(timestamp), body) for key in keys]
    return {ID: event_id, TIMESTAMP: str(timestamp), SIGNATURE: " ".join(made)}


def signature(key: bytes, event_id: str, timestamp: str, body: bytes) -> str:
    signed = f"{event_id}.{timestamp}.".encode() + body
    digest = hmac.digest(key, signed, "sha256")
    return f"{_VERSION},{base64.b64encode(digest).decode()}"


def is_signed(key: bytes, signatures: str, event_id: str, timestamp: str, body: bytes) -> bool:
    """Whether one of the signatures in the header is by this key; other kinds are ignored."""
    expected = signature(key, event_id, timestamp, body).encode()
    matches = [
        hmac.compare_digest(signature.encode(), expected) for signature in signatures.split(" ")
    ]
    return any(matches)
