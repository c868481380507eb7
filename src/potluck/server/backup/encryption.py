"""Encrypts the members of a backup.

A backup directory or file has one random key, stored beside the backups and itself encrypted with
a key from a passphrase (scrypt) or a key file. A member is a random salt and pieces of AES-256-GCM,
with a key from that salt. The nonce of a piece is its number and whether it is the last, and the
associated data is the member's name: nothing can be changed, swapped or cut off unnoticed.
"""

import os
from collections.abc import AsyncIterator
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from msgspec import Struct

from potluck.model.error import BackupDamaged, BadSettings

KEY_BYTES: Final = 32
_SALT_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_PIECE_BYTES: Final = 2**16
# 128 MiB of memory and a third of a second: guesses are expensive.
_SCRYPT_COST: Final = 2**17


class Codec(Protocol):
    """How members are stored."""

    def encode(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]: ...

    def decode(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]: ...

    def encoded_bytes(self, size_bytes: int) -> int: ...


class PlainCodec:
    async def encode(self, _: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for piece in pieces:
            yield piece

    decode = encode

    def encoded_bytes(self, size_bytes: int) -> int:
        return size_bytes


class BackupSecret(Struct, frozen=True):
    """A passphrase, or the key of a key file. Not shown in a repr."""

    value: bytes
    is_passphrase: bool

    def __repr__(self) -> str:
        return "BackupSecret(…)"


class KeyEnvelope(Struct, frozen=True):
    """The key of a backup directory or file, encrypted."""

    by_passphrase: bool
    salt: bytes
    nonce: bytes
    sealed: bytes


def make_envelope(secret: BackupSecret) -> tuple[KeyEnvelope, bytes]:
    """A new key, and its envelope."""
    key, salt, nonce = os.urandom(KEY_BYTES), os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    sealed = AESGCM(_outer_key(secret, salt)).encrypt(nonce, key, None)
    return KeyEnvelope(secret.is_passphrase, salt, nonce, sealed), key


def open_envelope(envelope: KeyEnvelope, secret: BackupSecret) -> bytes:
    what = "passphrase" if envelope.by_passphrase else "key file"
    if envelope.by_passphrase is not secret.is_passphrase:
        raise BadSettings(
            f"This backup is encrypted with a {what}.",
            "Give the passphrase." if envelope.by_passphrase else "Name it with --key-file.",
        )
    try:
        outer = AESGCM(_outer_key(secret, envelope.salt))
        return outer.decrypt(envelope.nonce, envelope.sealed, None)
    except InvalidTag:
        raise BadSettings(
            f"This is not the {what} of this backup.", f"Use the {what} that made it."
        ) from None


def _outer_key(secret: BackupSecret, salt: bytes) -> bytes:
    if secret.is_passphrase:
        return Scrypt(salt, KEY_BYTES, n=_SCRYPT_COST, r=8, p=1).derive(secret.value)
    return _derive(secret.value, salt, b"potluck backup envelope")


def _derive(key: bytes, salt: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt, purpose).derive(key)


class AesCodec:
    def __init__(self, key: bytes) -> None:
        self._key = key

    async def encode(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        salt = os.urandom(_SALT_BYTES)
        cipher, number, waiting = self._cipher(salt), 0, b""
        yield salt
        async for data in pieces:
            waiting += data
            # One piece stays back: the last one is marked as such.
            while len(waiting) > _PIECE_BYTES:
                piece, waiting = waiting[:_PIECE_BYTES], waiting[_PIECE_BYTES:]
                yield cipher.encrypt(_nonce(number, is_last=False), piece, name.encode())
                number += 1
        yield cipher.encrypt(_nonce(number, is_last=True), waiting, name.encode())

    async def decode(self, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        cipher: AESGCM | None = None
        number, waiting = 0, b""
        async for data in pieces:
            waiting += data
            if cipher is None:
                if len(waiting) < _SALT_BYTES:
                    continue
                cipher, waiting = self._cipher(waiting[:_SALT_BYTES]), waiting[_SALT_BYTES:]
            while len(waiting) > _PIECE_BYTES + _TAG_BYTES:
                piece = waiting[: _PIECE_BYTES + _TAG_BYTES]
                waiting = waiting[_PIECE_BYTES + _TAG_BYTES :]
                yield _open(cipher, _nonce(number, is_last=False), piece, name)
                number += 1
        if cipher is None:
            raise damaged(name, "it is too short")
        yield _open(cipher, _nonce(number, is_last=True), waiting, name)

    def encoded_bytes(self, size_bytes: int) -> int:
        pieces = max(1, -(-size_bytes // _PIECE_BYTES))
        return _SALT_BYTES + size_bytes + pieces * _TAG_BYTES

    def _cipher(self, salt: bytes) -> AESGCM:
        return AESGCM(_derive(self._key, salt, b"potluck backup member"))


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(_NONCE_BYTES - 1, "big") + bytes([is_last])


def _open(cipher: AESGCM, nonce: bytes, piece: bytes, name: str) -> bytes:
    try:
        return cipher.decrypt(nonce, piece, name.encode())
    except InvalidTag:
        raise damaged(name, "it was changed or cut off") from None


def damaged(name: str, why: str) -> BackupDamaged:
    return BackupDamaged(f"The backup is damaged: {name}: {why}.", "Use another backup.")
