"""Stateless nonces: a timestamp, random digits, and a MAC over both.

A challenge needs no row and no memory. A nonce is valid for one signature:
`store/identity/nonces.py` stores the used ones.
"""

import hmac
import secrets
from datetime import UTC, datetime, timedelta

# Hexadecimal: 8 digits of seconds, 32 random, 32 of MAC; EIP-4361 requires letters and digits.
_STAMP, _CHANCE, _MAC = 8, 32, 32


def new_nonce(key: bytes, now: datetime) -> str:
    body = f"{int(now.timestamp()):0{_STAMP}x}{secrets.token_hex(_CHANCE // 2)}"
    return body + _mac(key, body)


def expiry(key: bytes, nonce: str, now: datetime, lifetime: timedelta) -> datetime | None:
    """When this nonce expires; None if it is not ours or has expired."""
    body = nonce[: _STAMP + _CHANCE]
    if len(nonce) != _STAMP + _CHANCE + _MAC or not nonce.isascii():
        return None
    if not hmac.compare_digest(nonce[_STAMP + _CHANCE :], _mac(key, body)):
        return None
    made_at = datetime.fromtimestamp(int(body[:_STAMP], 16), UTC)
    # The clock of another instance may be slightly ahead.
    is_current = -timedelta(minutes=1) <= now - made_at <= lifetime
    return made_at + lifetime if is_current else None


def _mac(key: bytes, body: str) -> str:
    return hmac.digest(key, body.encode(), "sha256").hex()[:_MAC]
