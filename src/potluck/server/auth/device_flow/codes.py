"""The two codes of the device flow: a user code to type, and the terminal's secret device code.

The device code contains the user code, its expiry and a MAC, so that invalid codes are refused
without a lookup.
"""

import hmac
import re
import secrets
from datetime import UTC, datetime

from msgspec import Struct

# No vowels, so no words, and no look-alikes. 8 of 20 letters: 34 bits.
ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
_LETTERS = 8
_PREFIX = "potluck_device_"
_SHAPE = re.compile(
    f"{_PREFIX}(?P<body>(?P<user>[{ALPHABET}]{{{_LETTERS}}})(?P<ends>[0-9a-f]{{12}})[0-9a-f]{{32}})"
    "(?P<mac>[0-9a-f]{64})"
)


class DeviceCode(Struct, frozen=True):
    user_code: str
    expires_at: datetime


def new_user_code() -> str:
    return _spell("".join(secrets.choice(ALPHABET) for _ in range(_LETTERS)))


def read_user_code(typed: str) -> str | None:
    """The code in its normal form; None if it is malformed."""
    letters = re.sub("[- ]", "", typed[:64]).upper()
    if len(letters) != _LETTERS or not set(letters) <= set(ALPHABET):
        return None
    return _spell(letters)


def new_device_code(key: bytes, user_code: str, expires_at: datetime) -> str:
    letters = user_code.replace("-", "")
    body = f"{letters}{round(expires_at.timestamp() * 1000):012x}{secrets.token_hex(16)}"
    return f"{_PREFIX}{body}{_mac(key, body)}"


def read_device_code(key: bytes, text: str) -> DeviceCode | None:
    """The content of this server's device code, even if it has expired; None for anything else."""
    match = _SHAPE.fullmatch(text)
    if match is None or not hmac.compare_digest(match["mac"], _mac(key, match["body"])):
        return None
    ends = datetime.fromtimestamp(int(match["ends"], 16) / 1000, UTC)
    return DeviceCode(_spell(match["user"]), ends)


def _spell(letters: str) -> str:
    return f"{letters[:4]}-{letters[4:]}"


def _mac(key: bytes, body: str) -> str:
    return hmac.digest(key, f"device code {body}".encode(), "sha256").hex()
