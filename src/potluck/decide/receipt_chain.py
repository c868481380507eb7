"""Which receipts of a node the server takes: those that continue the node's chain.

A receipt that was taken before is answered again. One that would fork the chain is refused, and so
is one whose predecessor is missing, or that is not about an attempt of this node.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from msgspec import Struct

from potluck.model.ids import AccountId, AttemptId, NodeId
from potluck.model.lease import AttemptState

# How much sooner than a slice ends a node may sign for it: its clock is not ours.
_EARLY: Final = 0.5
_FIRST_DIGEST: Final = "0" * 64


class ReceiptRefusal(StrEnum):
    FORK = "fork"  # the chain has another receipt at this place
    GAP = "gap"  # receipts before it are missing
    FOREIGN = "foreign"  # it is not about an attempt of this node, or names other facts
    REPEATED = "repeated"  # the attempt has its last receipt, or one with this number, already
    SIGNATURE = "signature"  # the node key did not sign it


class AttemptFacts(Struct, frozen=True):
    """What the server knows of an attempt that a receipt is about."""

    id: AttemptId
    task_id: str
    node_id: NodeId
    consumer_id: AccountId
    state: AttemptState
    reason: str | None
    adoption: int
    slices: int
    price_micro_per_hour: int
    charged_micro: int
    held_back_micro: int
    fee_basis_points: int
    run_seconds_limit: float
    fetched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    parts: int  # receipts that it has
    has_last: bool

    def measured_ms(self, now: datetime) -> int:
        """From the start to the end, as the server saw them, within the limit."""
        if self.started_at is None:
            return 0
        seconds = ((self.finished_at or now) - self.started_at) / timedelta(seconds=1)
        return int(1000 * max(0.0, min(seconds, self.run_seconds_limit)))


class ChainHead(Struct, frozen=True):
    """How far the server has a chain. A chain that is new to it has no receipts."""

    receipts: int = 0
    last_digest: str = _FIRST_DIGEST


class SentReceipt(Struct, frozen=True):
    """A receipt whose signature was verified, as far as it decides."""

    number: int
    digest: str
    previous: str
    attempt_id: AttemptId
    task_id: str
    node_id: str
    account_id: str
    part: int
    is_last: bool
    is_signed: bool


class ChainJudgement(Struct, frozen=True):
    """Places in the list of sent receipts. Nothing after a refused one is judged."""

    taken: tuple[int, ...]
    known: tuple[int, ...]  # taken before
    head: ChainHead
    refusal: ReceiptRefusal | None = None
    detail: str = ""


def judge_receipts(
    head: ChainHead,
    stored: Mapping[int, str],  # digests by number, of the sent numbers
    sent: Sequence[SentReceipt],
    attempts: Mapping[AttemptId, AttemptFacts],
    now: datetime,
    slice_seconds: float,
) -> ChainJudgement:
    taken: list[int] = []
    known: list[int] = []
    parts = {attempt.id: attempt.parts for attempt in attempts.values()}
    for place, receipt in enumerate(sent):
        if stored.get(receipt.number) == receipt.digest:
            known.append(place)
            continue
        attempt = attempts.get(receipt.attempt_id)
        refusal = _chain_refusal(head, receipt) or (
            _foreign(receipt)
            if attempt is None
            else _attempt_refusal(receipt, attempt, parts[attempt.id], now, slice_seconds)
        )
        if refusal is not None:
            return ChainJudgement(tuple(taken), tuple(known), head, *refusal)
        taken.append(place)
        parts[receipt.attempt_id] += 1
        head = ChainHead(receipt.number, receipt.digest)
    return ChainJudgement(tuple(taken), tuple(known), head)


_Refused = tuple[ReceiptRefusal, str]


def _chain_refusal(head: ChainHead, receipt: SentReceipt) -> _Refused | None:
    number = receipt.number
    if not receipt.is_signed:
        return ReceiptRefusal.SIGNATURE, f"Receipt {number} is not signed by the node's key."
    if number > head.receipts + 1:
        detail = f"Receipt {number} cannot follow receipt {head.receipts}: others are missing."
        return ReceiptRefusal.GAP, detail
    if number <= head.receipts:
        detail = f"The chain has another receipt {number} already: a chain cannot fork."
        return ReceiptRefusal.FORK, detail
    if receipt.previous != head.last_digest:
        detail = f"Receipt {number} names another receipt before it than the chain has."
        return ReceiptRefusal.FORK, detail
    return None


def _attempt_refusal(
    receipt: SentReceipt, attempt: AttemptFacts, parts: int, now: datetime, slice_seconds: float
) -> _Refused | None:
    theirs = (receipt.node_id, receipt.task_id, receipt.account_id)
    if theirs != (attempt.node_id, attempt.task_id, attempt.consumer_id):
        return _foreign(receipt)
    if attempt.has_last or (not receipt.is_last and receipt.part < parts):
        detail = f"{attempt.id} has part {receipt.part} of its receipts, or its last one, already."
        return ReceiptRefusal.REPEATED, detail
    since = attempt.fetched_at or now
    ran_seconds = ((attempt.finished_at or now) - since) / timedelta(seconds=1)
    if not receipt.is_last and parts >= ran_seconds / (_EARLY * slice_seconds):
        detail = f"{attempt.id} has not run long enough for receipt {receipt.part + 1}."
        return ReceiptRefusal.REPEATED, detail
    return None


def _foreign(receipt: SentReceipt) -> _Refused:
    detail = f"Receipt {receipt.number} is not about an attempt of this node."
    return ReceiptRefusal.FOREIGN, detail
