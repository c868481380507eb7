"""Nonces that need no memory: when it was made, chance, and a MAC over both.

So a challenge costs no row and no memory, however many are asked for. A nonce is good for one
signature: `store/identity/nonces.py` keeps those that were used.
"""

import hmac
import secrets
from datetime import UTC, datetime, timedelta

# Hexadecimal: 8 digits of seconds, 32 of chance, 32 of MAC; EIP-4361 wants letters and digits.
_STAMP, _CHANCE, _MAC = 8, 32, 32


def new_nonce(key: bytes, now: datetime) -> str:
    body = f"{int(now.timestamp()):0{_STAMP}x}{secrets.token_hex(_CHANCE // 2)}"
    return body + _mac(key, body)


def expiry(key: bytes, nonce: str, now: datetime, lifetime: timedelta) -> datetime | None:
    """When this nonce ends; none if it is not one of ours, or has ended."""
    body = nonce[: _STAMP + _CHANCE]
    if len(nonce) != _STAMP + _CHANCE + _MAC or not nonce.isascii():
        return None
    if not hmac.compare_digest(nonce[_STAMP + _CHANCE :], _mac(key, body)):
        return None
    made_at = datetime.fromtimestamp(int(body[:_STAMP], 16), UTC)
    # Another instance's clock may be a little ahead.
    is_current = -timedelta(minutes=1) <= now - made_at <= lifetime
    return made_at + lifetime if is_current else None


def _mac(key: bytes, body: str) -> str:
    return hmac.digest(key, body.encode(), "sha256").hex()[:_MAC]
