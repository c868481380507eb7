"""Seals what is sensitive before it reaches the database, and opens it again.

AES-256-GCM. What is sealed names its table, column and row as associated data: moved to another
place it does not open. Layout: a version byte, the key's id, a random nonce, ciphertext and tag.
"""

import secrets
from collections.abc import Collection
from typing import Final

import structlog
from cryptography.exceptions import InvalidTag

from potluck.model.error import BadSettings, Unavailable, Unopenable
from potluck.store.sealing.key_ring import ID_BYTES, KeyPlace

log = structlog.get_logger()

_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_NONCE_AT = len(_VERSION) + ID_BYTES
_TEXT_AT = _NONCE_AT + _NONCE_BYTES


class Vault:
    """Follows the place of its keys: a key that is new there is used from the next sealing on."""

    def __init__(self, place: KeyPlace) -> None:
        self.place = place
        self.ring = place.read()

    @property
    def key_id(self) -> str:
        """Of the key that seals now."""
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
        """Those of the keys, by their ids, that are not there even when we look again."""
        if not self.ring.ids.issuperset(keys):
            try:
                self.ring = self.place.read()
            except BadSettings as error:
                log.error("encryption keys not read", detail=error.detail)
                raise _not_just_now() from error
        return frozenset(keys) - self.ring.ids

    def follow(self) -> None:
        """Another instance, or the operator, may have put a new key in front."""
        if not self.place.has_changed():
            return
        try:
            self.ring = self.place.read()
        except BadSettings as error:  # a slip there must not stop what works
            log.warning("encryption keys not read again", detail=error.detail)


def sealed_with(sealed: bytes) -> bytes:
    """The id of the key that sealed it."""
    return sealed[len(_VERSION) : _NONCE_AT]


def _place(table: str, column: str, row: str) -> bytes:
    assert "|" not in table + column, "a place must be spelled in one way only"
    return f"{table}|{column}|{row}".encode()


def _no_such_key(used: bytes, place: KeyPlace) -> Unopenable:
    return Unopenable(
        f"This was sealed with the key {used.hex()}, which is not in {place.name}.",
        "The operator has to put that key back, behind the current one.",
    )


def _not_just_now() -> Unavailable:
    """Where nobody can look, nobody can say either that a key is gone."""
    return Unavailable(
        "The server can not read its encryption keys just now.",
        "Try again. The server's log tells its operator why.",
        5.0,
    )


def _damaged(table: str, column: str, row: str) -> Unopenable:
    return Unopenable(
        f"{column} of {row} in {table} is not what was sealed there.",
        "The database was changed from outside, or is damaged; restore it from a backup.",
    )
