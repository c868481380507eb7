"""The statement of an epoch: what the server signs, and how anyone verifies it offline.

The same statement always has the same bytes: JSON with sorted names, without spaces, in UTF-8. The
server signs a text with their hash, as a wallet signs a message (EIP-191).
"""

from datetime import datetime
from hashlib import sha256

import msgspec
from msgspec import Struct

from potluck.model.credit import RewardsTo
from potluck.wire.signing.signature import recover, text_digest


class StatementLine(Struct, frozen=True, forbid_unknown_fields=True):
    """One wallet's part of the epoch."""

    wallet: str
    earned_micro: int
    fee_micro: int
    held_back_micro: int  # when the epoch was closed
    rewards_to: RewardsTo
    amount_micro: int  # set aside for a payout
    cumulative_micro: int  # in all epochs so far


class EpochStatement(Struct, frozen=True, forbid_unknown_fields=True):
    """Of all wallets that earned something, in the order of their addresses; or of one of them."""

    epoch: int
    starts_at: datetime
    ends_at: datetime
    is_of_pool: bool
    lines: list[StatementLine]


def canonical_bytes(statement: EpochStatement) -> bytes:
    return msgspec.json.encode(statement, order="sorted")


def statement_sha256(statement: EpochStatement) -> bytes:
    return sha256(canonical_bytes(statement)).digest()


def epoch_statement_digest(epoch: int, statement_hash: bytes) -> bytes:
    return text_digest(f"Potluck epoch statement\nEpoch: {epoch}\nSHA-256: {statement_hash.hex()}")


def statement_signer(statement: EpochStatement, signature: str) -> str | None:
    """The address that signed this statement; None if the signature is malformed."""
    try:
        signed = bytes.fromhex(signature.removeprefix("0x"))
    except ValueError:
        return None
    return recover(epoch_statement_digest(statement.epoch, statement_sha256(statement)), signed)
