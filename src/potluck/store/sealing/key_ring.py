"""The encryption keys: the first is current, the others still open what they once sealed.

A key is told apart by its id, four bytes of a hash. The id stands in front of all that the key
sealed, so it tells nothing about the key itself.
"""

import hashlib
import secrets
from collections.abc import Sequence
from typing import Final, Protocol

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
ID_BYTES: Final = 4


class KeyRing:
    """What is held of the keys; shown by their ids, so that no traceback tells a key."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = tuple(keys)
        self._ciphers = {key_id(key): AESGCM(key) for key in self.keys}
        assert self.keys, "a ring without a key seals nothing"
        assert len(self._ciphers) == len(self.keys), "two keys with one id can not be told apart"
        self.current = key_id(self.keys[0])

    @property
    def ids(self) -> frozenset[bytes]:
        return frozenset(self._ciphers)

    def cipher(self, key: bytes) -> AESGCM | None:
        return self._ciphers.get(key)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(key_id(key).hex() for key in self.keys)})"


class KeyPlace(Protocol):
    """Where the keys are kept, so that all instances can be given the same ones."""

    @property
    def name(self) -> str:
        """In the words of a sentence to a person."""

    def read(self) -> KeyRing: ...

    def has_changed(self) -> bool:
        """Since the last read. Cheap: it is asked before each sealing."""


class GivenKeys:
    """Keys that are what they are for as long as this process lives."""

    def __init__(self, name: str, ring: KeyRing) -> None:
        self.name = name
        self._ring = ring

    def read(self) -> KeyRing:
        return self._ring

    def has_changed(self) -> bool:
        return False


def key_id(key: bytes) -> bytes:
    assert len(key) == KEY_BYTES, "AES-256 takes keys of 32 bytes"
    return hashlib.sha256(b"potluck key id" + key).digest()[:ID_BYTES]


def new_key(ring: KeyRing | None = None) -> bytes:
    """One whose id is not on the ring yet."""
    while True:
        key = secrets.token_bytes(KEY_BYTES)
        if ring is None or key_id(key) not in ring.ids:
            return key
