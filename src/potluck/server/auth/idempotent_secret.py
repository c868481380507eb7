"""Idempotent requests that create something: a repeat gets the same response and creates nothing.

The Idempotency-Key is stored among the used nonces, with a hash of the body. A secret in the
response is derived from both, so that it can be returned again without being stored.
"""

import base64
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
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
    """Hashes of the operation, account, key and body, and when they are forgotten."""

    name: str  # without the body
    whole: str  # with the body
    kept_until: datetime


def idempotent_request(
    services: Services, account_id: AccountId, operation: str, key: str | None, body: Any
) -> IdempotentRequest | None:
    """None without a key: then every request is new."""
    if key is None:
        return None
    canonical = f"{operation}\n{account_id}\n{key}\n".encode()
    name = hmac.digest(services.keys.request, canonical, "sha256").hex()
    whole = canonical + msgspec.json.encode(body, order="deterministic")
    return IdempotentRequest(
        f"repeat_{name}",
        hmac.digest(services.keys.request, whole, "sha256").hex(),
        services.clock.now() + KEPT,
    )


async def is_first(connection: Connection, request: IdempotentRequest | None) -> bool:
    """Whether to execute the request. Raises Conflict if the key was used with another body.

    Of two concurrent requests the second waits here until the first has committed or failed.
    """
    if request is None:
        return True
    is_new = await nonces.use(connection, request.name, request.kept_until)
    is_other = await nonces.use(connection, f"{request.name}_{request.whole}", request.kept_until)
    if not is_new and is_other:
        raise Conflict(
            "This Idempotency-Key was used for another request.", "Use a new key for each request."
        )
    return is_new


def secret(services: Services, prefix: str, request: IdempotentRequest | None) -> str:
    """A random secret, or the one derived from this request."""
    if request is None:
        return new_secret(prefix)
    digest = secret_bytes(services, prefix, request)
    return prefix + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def secret_bytes(services: Services, purpose: str, request: IdempotentRequest) -> bytes:
    """Unpredictable without the server's key, and the same for the same request."""
    return hmac.digest(services.keys.secret, f"{purpose}{request.whole}".encode(), "sha256")


@contextmanager
def once(what: str) -> Iterator[None]:
    """Handles a repeat after the key was forgotten, whose object is revoked but still stored."""
    try:
        yield
    except UniqueViolationError as error:
        raise no_longer_valid(what) from error


def no_longer_valid(what: str) -> Conflict:
    return Conflict(
        f"The {what} of this Idempotency-Key is no longer valid.", "Use a new key to make another."
    )
