"""What the treasury signs, judged by what it has signed before.

One nonce has one content, and one epoch of a contract one root. The same content again, with
another fee, is no second payment.
"""

from collections.abc import Iterable

from msgspec import Struct

from potluck.model.payout import TransactionKind


class SignatureContent(Struct, frozen=True):
    """What a transaction does; the fee is no part of it."""

    chain_id: int
    contract: str
    kind: TransactionKind
    number: int
    root: bytes
    total_units: int
    statement: bytes


class SignatureRecord(Struct, frozen=True):
    content: SignatureContent
    sender: str
    nonce: int
    hash: bytes  # of the signed transaction


def find_objection(
    earlier: Iterable[SignatureRecord], content: SignatureContent, sender: str, nonce: int
) -> str | None:
    """Why this must not be signed; None if it may."""
    for record in earlier:
        signed = record.content
        is_same_nonce = (signed.chain_id, record.sender, record.nonce) == (
            *(content.chain_id, sender, nonce),
        )
        if is_same_nonce and signed != content:
            return (
                f"nonce {nonce} was signed for another transaction"
                f" ({signed.kind} of epoch {signed.number})"
            )
        if content.kind is TransactionKind.PROPOSE and _contradicts(signed, content):
            return (
                f"it contradicts a root that was signed: epoch {signed.number}, with a total of"
                f" {signed.total_units}"
            )
    return None


def _contradicts(signed: SignatureContent, content: SignatureContent) -> bool:
    """Another root of the same epoch, or a higher total in an earlier one."""
    if signed.kind is not TransactionKind.PROPOSE or (signed.chain_id, signed.contract) != (
        *(content.chain_id, content.contract),
    ):
        return False
    if signed.number == content.number:
        return signed != content
    return (signed.number < content.number) != (signed.total_units <= content.total_units)
