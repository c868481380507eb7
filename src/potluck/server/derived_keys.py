"""Keys for one purpose each, derived from the secret that all instances share."""

import hmac

from msgspec import Struct


class Keys(Struct, frozen=True):
    lease: bytes
    nonce: bytes
    access: bytes
    device: bytes
    request: bytes
    audit: bytes
    secret: bytes
    refresh: bytes
    signing: bytes  # signs statements and receipts; its address is public


def derive_keys(secret: bytes) -> Keys:
    return Keys(*(_derived(secret, purpose) for purpose in Keys.__struct_fields__))


def _derived(secret: bytes, purpose: str) -> bytes:
    assert len(secret) >= 32, "a short secret can be guessed"
    return hmac.digest(secret, f"potluck {purpose}".encode(), "sha256")
