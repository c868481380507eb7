"""Secrets of callers, stored as hashes only, and lease tokens, which are derived."""

import base64
import hashlib
import hmac
import secrets

from potluck.model.ids import AttemptId

# The prefix identifies the kind of a leaked secret.
KEY_PREFIX = "potluck_key_"
REFRESH_PREFIX = "potluck_refresh_"
INVITE_PREFIX = "potluck_invite_"


def new_secret(prefix: str) -> str:
    return f"{prefix}{secrets.token_urlsafe(32)}"


def next_secret(key: bytes, used: str, prefix: str) -> str:
    """The successor of a secret: always the same one, and unpredictable without the key."""
    digest = hmac.digest(key, used.encode("utf-8", "surrogateescape"), "sha256")
    return prefix + base64.urlsafe_b64encode(digest).decode().rstrip("=")


def secret_hash(secret: str) -> bytes:
    """256 random bits need no salt and no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def lease_token(key: bytes, attempt_id: AttemptId) -> str:
    digest = hmac.digest(key, f"lease:{attempt_id}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def is_lease_token(key: bytes, attempt_id: AttemptId, token: str) -> bool:
    return hmac.compare_digest(lease_token(key, attempt_id), token)
