"""Wallet addresses, normalised to the EIP-55 spelling.

The case of the letters is a checksum. All-lower and all-upper case have no checksum and are
accepted; mixed case must be correct.
"""

import re
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from potluck.model.bounded_types import END
from potluck.model.error import InvalidInput

ADDRESS_PATTERN = "0x[0-9a-fA-F]{40}"
_ADDRESS = re.compile(ADDRESS_PATTERN)
AddressText = Annotated[str, Meta(pattern=f"^{ADDRESS_PATTERN}{END}", max_length=42)]


def keccak256(data: bytes) -> bytes:
    from Crypto.Hash import keccak  # imported by the few commands that need it: it takes long

    return keccak.new(digest_bits=256, data=data).digest()


@lru_cache(maxsize=16_384)
def checksummed(address: str) -> str:
    """The address in EIP-55 spelling. Raises InvalidInput if it is not an address.

    Cached, because the devices of a node usually name the same wallets.
    """
    if not _ADDRESS.fullmatch(address):
        raise InvalidInput(
            f"{address[:64]!r} is not a wallet address.", "It is 0x and 40 hexadecimal digits."
        )
    spelled = _spell(address[2:].lower())
    if address[2:] not in (spelled[2:], spelled[2:].lower(), spelled[2:].upper()):
        raise InvalidInput(
            f"The address {address} has a wrong checksum.", "Copy it again; a digit differs."
        )
    return spelled


def _spell(digits: str) -> str:
    sums = keccak256(digits.encode()).hex()
    letters = [
        digit.upper() if checked > "7" else digit
        for digit, checked in zip(digits, sums[:40], strict=True)
    ]
    return f"0x{''.join(letters)}"
