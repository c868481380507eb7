"""Sign-in requests of terminals that wait for approval: encrypted in `live`, for minutes.

Anyone can start one, so no row is written. If `live` loses them, terminals start again; forged
entries do not decrypt.
"""

import hmac
from datetime import datetime

import msgspec
from msgspec import Struct

from potluck.model.error import Unavailable, Unopenable
from potluck.server import topics
from potluck.server.services import Services

_PLACE = ("live", "terminal_ask")


class Pending(Struct, frozen=True):
    user_code: str
    code_hash: bytes  # of the device code
    machine: str
    expires_at: datetime
    node_key: str | None = None
    invite: str | None = None
    was_denied: bool = False


async def put(services: Services, pending: Pending, now: datetime) -> None:
    name = _name(services, pending.user_code)
    sealed = services.vault.seal(*_PLACE, name, msgspec.json.encode(pending))
    await services.live.put(name, sealed, max(0.001, (pending.expires_at - now).total_seconds()))


async def find(services: Services, user_code: str, now: datetime) -> Pending | None:
    """None if no terminal has this code. Raises Unavailable if `live` does not respond."""
    name = _name(services, user_code)
    sealed = await services.live.get(name)
    if sealed is None:
        if not await services.live.ping():
            raise Unavailable("Pending sign-ins are not available right now.", "Try again.", 1.0)
        return None
    try:
        pending = msgspec.json.decode(services.vault.open(*_PLACE, name, sealed), type=Pending)
    except Unopenable:
        return None
    return pending if now < pending.expires_at else None


async def drop(services: Services, user_code: str) -> None:
    await services.live.drop(_name(services, user_code))


def _name(services: Services, user_code: str) -> str:
    """A MAC of the code: the names in `live` must not reveal codes."""
    digest = hmac.digest(services.keys.device, f"user code {user_code}".encode(), "sha256")
    return topics.terminal_request(digest.hex())
