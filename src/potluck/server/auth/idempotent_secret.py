"""Requests that make something, sent again: the same answer, and no second thing.

The Idempotency-Key is a nonce of the caller's own choice, kept among those that are used up, with a
hash of the body beside it. A secret that such a request hands out is derived from both, so that it
can be told once more and is kept nowhere.
"""

import base64
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from asyncpg import UniqueViolationError
from msgspec import Struct

from potluck.model.error import Conflict
from potluck.model.ids import AccountId
from potluck.server.auth.tokens import new_secret
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.identity import nonces

KEPT: Final = timedelta(days=7)


class IdempotentRequest(Struct, frozen=True):
    """Who asked for what, under which key, as hashes."""

    name: str  # of the key; another body has the same
    whole: str  # of the key and the body


def asked(
    services: Services, account_id: AccountId, operation: str, key: str | None, body: Any
) -> IdempotentRequest | None:
    """None without a key: then every request is a new one."""
    if key is None:
        return None
    said = f"{operation}\n{account_id}\n{key}\n".encode()
    name = hmac.digest(services.keys.request, said, "sha256").hex()
    whole = said + msgspec.json.encode(body, order="deterministic")
    return IdempotentRequest(
        f"repeat_{name}", f"{hmac.digest(services.keys.request, whole, 'sha256').hex()}"
    )


async def is_first(connection: Connection, request: IdempotentRequest | None) -> bool:
    """Whether it is to be done now. Raises Conflict for another body under a key that was used.

    Two at once: the second waits here until the first is done or has failed.
    """
    if request is None:
        return True
    until = datetime.now(UTC) + KEPT
    is_new = await nonces.use(connection, request.name, until)
    is_other = await nonces.use(connection, f"{request.name}_{request.whole}", until)
    if not is_new and is_other:
        raise Conflict(
            "This Idempotency-Key was used for another request.", "Use a new key for each request."
        )
    return is_new


def secret(services: Services, prefix: str, request: IdempotentRequest | None) -> str:
    """A new one, or the one that belongs to this request."""
    if request is None:
        return new_secret(prefix)
    digest = secret_bytes(services, prefix, request)
    return prefix + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def secret_bytes(services: Services, purpose: str, request: IdempotentRequest) -> bytes:
    """Nobody else can tell them, and the same request has them again."""
    return hmac.digest(services.keys.secret, f"{purpose}{request.whole}".encode(), "sha256")


@contextmanager
def once(what: str) -> Iterator[None]:
    """The same request long after its key was forgotten meets what it made, if that is over."""
    try:
        yield
    except UniqueViolationError as error:
        raise gone(what) from error


def gone(what: str) -> Conflict:
    return Conflict(
        f"The {what} that this Idempotency-Key made is no longer in force.",
        "Use a new key to make another.",
    )
