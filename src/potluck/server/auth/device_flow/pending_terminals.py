"""Terminals that ask to be let in, while they wait: in `live`, sealed, for minutes.

Nobody who asks is known yet, so no row is written for them. What is lost with `live` is asked for
again; what somebody put there from outside does not open.
"""

import hmac
from datetime import datetime

import msgspec
from msgspec import Struct

from potluck.model.error import Unavailable, Unopenable
from potluck.server import topics
from potluck.server.services import Parts

_PLACE = ("live", "terminal_ask")


class Pending(Struct, frozen=True):
    user_code: str
    code_hash: bytes  # of the device code
    machine: str
    expires_at: datetime
    node_key: str | None = None
    invite: str | None = None
    was_denied: bool = False


async def put(parts: Parts, asked: Pending, now: datetime) -> None:
    name = _name(parts, asked.user_code)
    sealed = parts.vault.seal(*_PLACE, name, msgspec.json.encode(asked))
    await parts.live.put(name, sealed, max(0.001, (asked.expires_at - now).total_seconds()))


async def find(parts: Parts, user_code: str, now: datetime) -> Pending | None:
    """None if nobody waits with this code; that `live` is away is another matter, and raised."""
    name = _name(parts, user_code)
    sealed = await parts.live.get(name)
    if sealed is None:
        if not await parts.live.ping():
            raise Unavailable("The server does not know just now who waits.", "Try again.", 1.0)
        return None
    try:
        asked = msgspec.json.decode(parts.vault.open(*_PLACE, name, sealed), type=Pending)
    except Unopenable:
        return None
    return asked if now < asked.expires_at else None


async def drop(parts: Parts, user_code: str) -> None:
    await parts.live.drop(_name(parts, user_code))


def _name(parts: Parts, user_code: str) -> str:
    """Not the code itself: who reads the names in `live` could answer in a person's place."""
    digest = hmac.digest(parts.keys.device, f"user code {user_code}".encode(), "sha256")
    return topics.terminal_ask(digest.hex())
