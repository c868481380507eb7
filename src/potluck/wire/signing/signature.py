"""Signatures of wallets and node keys: signing, and recovery of the signer's address.

A key and a message have more than one valid signature (s and n − s), so a signature never
identifies anything; nonces do.
"""

from typing import TYPE_CHECKING

from potluck.wire.signing.address import checksummed, keccak256

if TYPE_CHECKING:
    from coincurve import (
        PrivateKey,
        PublicKey,
    )  # imported by the few commands that need it: it takes long

_LENGTH = 65


def text_digest(text: str) -> bytes:
    """The digest that a wallet signs for a text (EIP-191)."""
    data = text.encode()
    return keccak256(b"\x19Ethereum Signed Message:\n%d%b" % (len(data), data))


class Signer:
    """A key that signs often: reading it takes twice as long as signing. It is never shown."""

    __slots__ = ("_key", "address")

    def __init__(self, private_key: bytes) -> None:
        self._key = _read(private_key)
        self.address = _address(self._key.public_key)

    def sign(self, digest: bytes) -> str:
        signed = self._key.sign_recoverable(digest, hasher=None)
        return f"0x{(signed[:64] + bytes([27 + signed[64]])).hex()}"

    def __repr__(self) -> str:
        return f"Signer({self.address})"


def sign(private_key: bytes, digest: bytes) -> str:
    return Signer(private_key).sign(digest)


def recover(digest: bytes, signature: bytes) -> str | None:
    """The address of the key that made this signature; None if it is malformed."""
    from coincurve import PublicKey

    if len(signature) != _LENGTH:
        return None
    # Most wallets count from 27, some from 0.
    parity = signature[64] - 27 if signature[64] >= 27 else signature[64]
    if parity not in (0, 1):
        return None
    try:
        key = PublicKey.from_signature_and_message(
            signature[:64] + bytes([parity]), digest, hasher=None
        )
    except ValueError:
        return None
    return _address(key)


def is_signed_by(address: str, digest: bytes, signature: str) -> bool:
    """Whether the key of this address made the signature."""
    return recover(digest, bytes.fromhex(signature[2:])) == checksummed(address)


def address_of(private_key: bytes) -> str:
    return Signer(private_key).address


def _read(private_key: bytes) -> "PrivateKey":
    from coincurve import PrivateKey

    return PrivateKey(private_key)


def _address(key: "PublicKey") -> str:
    return checksummed(f"0x{keccak256(key.format(compressed=False)[1:])[-20:].hex()}")
