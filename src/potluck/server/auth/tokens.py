"""Tokens: a bearer's, kept as a hash only, and a lease's, which is an HMAC and kept nowhere."""

import base64
import hashlib
import hmac
import secrets

from potluck.model.ids import AttemptId


def new_bearer_token() -> str:
    return f"potluck_{secrets.token_urlsafe(32)}"


def bearer_hash(token: str) -> bytes:
    """256 random bits need no salt and no slow hash."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def lease_token(secret: bytes, attempt_id: AttemptId) -> str:
    digest = hmac.digest(secret, f"lease:{attempt_id}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def is_lease_token(secret: bytes, attempt_id: AttemptId, token: str) -> bool:
    return hmac.compare_digest(lease_token(secret, attempt_id), token)
