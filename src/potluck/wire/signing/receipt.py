"""Receipts: what a node says that it did, signed by its key, and what the server accepted of it.

Both are signed as texts (EIP-191) with one `name: value` line per field, in the order of the fields
here. No value contains a line break, so that a text has one meaning. A receipt is identified by its
digest, never by a signature: a key and a text have more than one valid signature.

The receipts of a node form a chain: each names the digest of the one before it. Amounts and times
are those of the attempt up to the receipt, so the last receipt of an attempt counts.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END, MOST_DEVICES, Count, Price, SmallCount
from potluck.model.ids import ATTEMPT_PATTERN, NODE_PATTERN, TASK_PATTERN, AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.wire.identity import SignatureText
from potluck.wire.signing.address import AddressText
from potluck.wire.signing.signature import text_digest

NO_HASH = "0" * 64
# Carried by one heartbeat; the others follow with the next.
MOST_RECEIPTS = 200
# The server signs the end of an export with at most this many.
MOST_EXPORTED = 100_000

HashText = Annotated[str, Meta(pattern=f"^[0-9a-f]{{64}}{END}")]
ChainId = Annotated[str, Meta(pattern=f"^[0-9a-f]{{32}}{END}")]
# Ids, words and the share of a device: printable ASCII without blanks.
_Word = Annotated[str, Meta(max_length=64, pattern=f"^[a-z0-9_:]*{END}")]
_Shares = Annotated[tuple[_Word, ...], Meta(max_length=MOST_DEVICES)]


class Receipt(Struct, frozen=True, forbid_unknown_fields=True):
    """What a node did in an attempt, by its own clock and measurement."""

    server: AddressText  # the address that countersigns
    node_key: AddressText
    node_id: Annotated[str, Meta(pattern=NODE_PATTERN)]
    chain: ChainId
    number: Annotated[int, Meta(ge=1, le=2**40)]  # in the chain
    previous: HashText  # the digest of the receipt before it; zeros for the first
    starts: _Word  # of the first one: why the node started a chain; empty for the others
    attempt_id: Annotated[str, Meta(pattern=ATTEMPT_PATTERN)]
    task_id: Annotated[str, Meta(pattern=TASK_PATTERN)]
    account_id: _Word  # of the consumer
    devices: _Shares  # each `device_…:milli`
    part: SmallCount  # of the attempt, counted by the node from 0
    is_last: bool  # of the attempt
    started_at_ms: Count  # since 1970; 0 if the consumer's code did not start, or it is not known
    ended_at_ms: Count
    worked_ms: Count
    reason: (
        _Word  # the end reason that the node reported; `stopped` if the server ended the attempt
    )
    price_micro_per_hour: Price  # agreed in the lease
    result_sha256: HashText  # of a function's value; zeros if there is none


class Countersignature(Struct, frozen=True, forbid_unknown_fields=True):
    """What the server had accepted and charged of the attempt when it got the receipt."""

    receipt: HashText  # its digest
    chain_of_node: SmallCount  # 1 for the first chain of this node
    adoption: SmallCount  # how often the attempt was lost and taken back
    slices: SmallCount  # charged in this life of the attempt
    state: AttemptState
    reason: _Word  # the end reason that counts; empty while it runs
    price_micro_per_hour: Price
    measured_ms: Count  # from the start to the end, as the server saw them, within the limit
    charged_micro: Count  # to the consumer, with the fee
    held_back_micro: Count  # of that, what may still be returned to the consumer
    fee_basis_points: SmallCount
    signed_at_ms: Count


class NodeSignedReceipt(Struct, frozen=True, forbid_unknown_fields=True):
    receipt: Receipt
    node_signature: SignatureText


class SignedReceipt(Struct, frozen=True, forbid_unknown_fields=True):
    """A receipt with both signatures: one line of an export."""

    receipt: Receipt
    node_signature: SignatureText
    countersignature: Countersignature
    server_signature: SignatureText


class CountersignedReceipt(Struct, frozen=True, forbid_unknown_fields=True):
    """The server's half of a receipt that the node has."""

    countersignature: Countersignature
    server_signature: SignatureText


class ReceiptsAnswer(Struct, frozen=True):
    """`refused` is a code, `detail` its sentence, about the first receipt that was not taken."""

    countersigned: tuple[CountersignedReceipt, ...] = ()
    next_number: int = 0  # the number in the chain that the server expects
    refused: str = ""
    detail: str = ""


class ReceiptSide(StrEnum):
    """The role in which an account sees receipts."""

    PROVIDER = "provider"  # of its nodes
    CONSUMER = "consumer"  # of its tasks


class ReceiptState(Struct, frozen=True):
    """An ended attempt, and whether its receipt exists."""

    attempt_id: AttemptId
    task_id: TaskId
    node_id: NodeId
    node_name: str
    finished_at: datetime
    state: AttemptState
    reason: str | None
    price_micro_per_hour: int
    charged_micro: int
    receipts: int  # with those of its slices
    worked_ms: int | None  # as the node signed it
    is_complete: bool  # it has its last receipt; one of an earlier version's node never has


class ReceiptStates(Struct, frozen=True):
    """Newest first."""

    attempts: list[ReceiptState]
    server: AddressText  # the address that countersigns
    next_cursor: AttemptId | None = None


class ReceiptPage(Struct, frozen=True):
    """In the order in which the server took them."""

    receipts: list[SignedReceipt]
    next_cursor: int | None = None  # None at the end
    last: int = 0  # the place of the last one: the end line is signed up to it


class ExportEnd(Struct, frozen=True, forbid_unknown_fields=True):
    """The last line of an export: it shows that no receipt is missing, and no order was changed."""

    server: AddressText
    scope: ReceiptSide
    account_id: _Word
    receipts: Count
    digest: HashText  # over the digests of all receipts, in the order of the lines
    exported_at_ms: Count
    server_signature: SignatureText = ""


def receipt_digest(receipt: Receipt) -> bytes:
    return text_digest(_text("Potluck receipt", receipt))


def countersignature_digest(countersignature: Countersignature) -> bytes:
    return text_digest(_text("Potluck countersignature", countersignature))


def export_end_digest(end: ExportEnd) -> bytes:
    return text_digest(_text("Potluck receipts, end", end))


def _text(title: str, fields: Struct) -> str:
    lines = [
        f"{name}: {_value(getattr(fields, name))}"
        for name in fields.__struct_fields__
        if name != "server_signature"
    ]
    return "\n".join((title, *lines))


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
