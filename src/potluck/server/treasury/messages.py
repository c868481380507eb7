"""What a server and the treasury say to each other: lines of JSON on a local socket."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from potluck.model.payout import TransactionKind

MAX_LINE_BYTES: Final = 64 * 1024


class ShowAddress(Struct, frozen=True, tag=True):
    """Asks for the address of the key."""


class SignTransaction(Struct, frozen=True, tag=True):
    """Asks for a signature. The treasury makes the transaction itself from these values."""

    chain_id: int
    contract: str
    kind: TransactionKind
    number: int
    root: bytes
    total_units: str  # in decimal digits: other programs round large numbers
    statement: bytes
    nonce: int
    gas: int
    max_fee: int
    max_tip: int


class TreasuryAddress(Struct, frozen=True, tag=True):
    address: str


class TreasurySignature(Struct, frozen=True, tag=True):
    raw: bytes
    hash: bytes


class TreasuryRefusal(Struct, frozen=True, tag=True):
    because: str  # the end of a sentence


TreasuryRequest: TypeAlias = ShowAddress | SignTransaction
TreasuryAnswer: TypeAlias = TreasuryAddress | TreasurySignature | TreasuryRefusal

REQUESTS: Final[msgspec.json.Decoder[TreasuryRequest]] = msgspec.json.Decoder(TreasuryRequest)
ANSWERS: Final[msgspec.json.Decoder[TreasuryAnswer]] = msgspec.json.Decoder(TreasuryAnswer)
