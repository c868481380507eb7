"""Encrypts sensitive values before they reach the database, and decrypts them.

AES-256-GCM with table, column and row as associated data: a value moved elsewhere does not open.
Layout: a version byte, the key's id, a random nonce, ciphertext and tag. A key's id is four bytes
of its hash, and reveals nothing about the key.
"""

import hashlib
import secrets
from collections.abc import Collection, Sequence
from typing import Final, Protocol

import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from potluck.model.error import BadSettings, Unavailable, Unopenable

KEY_BYTES: Final = 32
ID_BYTES: Final = 4


class KeyRing:
    """The encryption keys: the first one is current, the others still open older values.

    Its repr shows only ids, so that no traceback reveals a key.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.keys = tuple(keys)
        self._ciphers = {key_id(key): AESGCM(key) for key in self.keys}
        assert self.keys, "a ring without a key seals nothing"
        assert len(self._ciphers) == len(self.keys), "two keys have the same id"
        self.current = key_id(self.keys[0])

    @property
    def ids(self) -> frozenset[bytes]:
        return frozenset(self._ciphers)

    def cipher(self, key: bytes) -> AESGCM | None:
        return self._ciphers.get(key)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(key_id(key).hex() for key in self.keys)})"


class KeyPlace(Protocol):
    """Where the keys are stored, so that all instances get the same ones."""

    @property
    def name(self) -> str:
        """As it appears in messages."""

    def read(self) -> KeyRing: ...

    def has_changed(self) -> bool:
        """Since the last read. Cheap, since it is called before each encryption."""


class GivenKeys:
    """Keys that are fixed for the lifetime of this process."""

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
    """A key whose id is not on the ring yet."""
    while True:
        key = secrets.token_bytes(KEY_BYTES)
        if ring is None or key_id(key) not in ring.ids:
            return key


log = structlog.get_logger()

_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_NONCE_AT = len(_VERSION) + ID_BYTES
_TEXT_AT = _NONCE_AT + _NONCE_BYTES


class Vault:
    """Follows changes of its keys: a new key is used from the next encryption on."""

    def __init__(self, place: KeyPlace) -> None:
        self.place = place
        self.ring = place.read()

    @property
    def key_id(self) -> str:
        """The id of the current key."""
        return self.ring.current.hex()

    def seal(self, table: str, column: str, row: str, plain: bytes) -> bytes:
        self.follow()
        cipher, nonce = self.ring.cipher(self.ring.current), secrets.token_bytes(_NONCE_BYTES)
        assert cipher is not None, "the current key is on the ring"
        text = cipher.encrypt(nonce, plain, _place(table, column, row))
        return _VERSION + self.ring.current + nonce + text

    def open(self, table: str, column: str, row: str, sealed: bytes) -> bytes:
        if len(sealed) < _TEXT_AT + _TAG_BYTES or sealed[: len(_VERSION)] != _VERSION:
            raise _damaged(table, column, row)
        used = sealed_with(sealed)
        if self.lacks([used]):
            raise _no_such_key(used, self.place)
        cipher = self.ring.cipher(used)
        assert cipher is not None, "a key that is not lacking is on the ring"
        nonce, text = sealed[_NONCE_AT:_TEXT_AT], sealed[_TEXT_AT:]
        try:
            return cipher.decrypt(nonce, text, _place(table, column, row))
        except InvalidTag as error:
            raise _damaged(table, column, row) from error

    def lacks(self, keys: Collection[bytes]) -> frozenset[bytes]:
        """The key ids that are missing, even after reading the keys again."""
        if not self.ring.ids.issuperset(keys):
            try:
                self.ring = self.place.read()
            except BadSettings as error:
                log.error("encryption keys not read", detail=error.detail)
                raise _keys_unreadable() from error
        return frozenset(keys) - self.ring.ids

    def follow(self) -> None:
        """Reads the keys again if another instance or the operator has changed them."""
        if not self.place.has_changed():
            return
        try:
            self.ring = self.place.read()
        except BadSettings as error:  # a mistake there must not stop a working server
            log.warning("encryption keys not read again", detail=error.detail)


def sealed_with(sealed: bytes) -> bytes:
    """The id of the key that sealed it."""
    return sealed[len(_VERSION) : _NONCE_AT]


def _place(table: str, column: str, row: str) -> bytes:
    assert "|" not in table + column, "the location must be unambiguous"
    return f"{table}|{column}|{row}".encode()


def _no_such_key(used: bytes, place: KeyPlace) -> Unopenable:
    return Unopenable(
        f"This was sealed with the key {used.hex()}, which is not in {place.name}.",
        "The operator must add that key again, after the current one.",
    )


def _keys_unreadable() -> Unavailable:
    """While the keys cannot be read, it is unknown whether one is missing."""
    return Unavailable(
        "The server cannot read its encryption keys.",
        "Try again. The server's log has the reason.",
        5.0,
    )


def _damaged(table: str, column: str, row: str) -> Unopenable:
    return Unopenable(
        f"{column} of {row} in {table} does not match its seal.",
        "The database was modified externally, or is damaged; restore it from a backup.",
    )
