"""Receipts: what a node signs about its attempts is countersigned, and kept in the node's chain.

They come with heartbeats, many at once, so a task costs no request and no statement of its own.
Signatures are made and verified in a thread. Repeating a receipt gets the same countersignature.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime

import structlog
from msgspec.structs import replace

from potluck.decide.receipt_chain import AttemptFacts, ReceiptRefusal, SentReceipt, judge_receipts
from potluck.model.error import InvalidInput, NotFound
from potluck.model.ids import AttemptId, NodeId
from potluck.server.flow.settle.server_signer import server_signer
from potluck.server.services import Services
from potluck.store.ledger import receipts
from potluck.store.ledger.receipts import AddedReceipt, LockedChain, ReceiptSelection
from potluck.store.nodes.nodes import Owner
from potluck.wire.signing.receipt import (
    MOST_EXPORTED,
    Countersignature,
    CountersignedReceipt,
    ExportEnd,
    NodeSignedReceipt,
    ReceiptsAnswer,
    SignedReceipt,
    countersignature_digest,
    export_end_digest,
    receipt_digest,
)
from potluck.wire.signing.signature import Signer, recover

log = structlog.get_logger()

_DIGESTS_PAGE = 10_000


async def take_receipts(
    services: Services, owner: Owner, node_id: NodeId, sent: Sequence[NodeSignedReceipt]
) -> ReceiptsAnswer:
    """Takes those of one chain, up to the first that is refused."""
    if not sent:
        return ReceiptsAnswer()
    chain = sent[0].receipt.chain
    of_chain = [one for one in sent if one.receipt.chain == chain]
    digests = await asyncio.to_thread(_verify, of_chain)
    numbers = [one.receipt.number for one in of_chain]
    attempt_ids = sorted({one.receipt.attempt_id for one in of_chain})
    async with services.database.transaction() as connection:
        locked = await receipts.lock_chain(connection, node_id, owner, chain)
        if locked is None:
            raise NotFound("This key has no such node.")
        stored = await receipts.stored(connection, node_id, chain, numbers)
        facts = await receipts.facts(connection, node_id, attempt_ids)
        signer = server_signer(services)
        address = signer.address
        judged = judge_receipts(
            locked.head,
            {number: digest for number, (digest, _) in stored.items()},
            [
                _sent(one, digest, signed_by == locked.node_key and _names(one, address, locked))
                for one, (digest, signed_by) in zip(of_chain, digests, strict=True)
            ],
            facts,
            locked.now,
            services.settings.settle_seconds,
        )
        if judged.taken:
            added = await asyncio.to_thread(
                _countersign,
                signer,
                [(of_chain[place], digests[place][0]) for place in judged.taken],
                facts,
                locked,
            )
            await receipts.add(connection, node_id, owner.account_id, chain, judged.head, added)
            stored |= {
                one.signed.receipt.number: (
                    one.digest,
                    CountersignedReceipt(one.signed.countersignature, one.signed.server_signature),
                )
                for one in added
            }
        if judged.refusal is ReceiptRefusal.FORK:
            await receipts.count_fork(connection, node_id, chain)
    _count(services, node_id, len(judged.taken), judged.refusal, judged.detail)
    answered = sorted((*judged.known, *judged.taken))
    return ReceiptsAnswer(
        tuple(stored[numbers[place]][1] for place in answered),
        judged.head.receipts + 1,
        "" if judged.refusal is None else str(judged.refusal),
        judged.detail,
    )


async def sign_export(services: Services, selection: ReceiptSelection) -> ExportEnd:
    """The last line of an export: how many receipts it has, and a digest of them in order.

    An export has a bound, so that one request does not read what an account has of years.
    """
    digest, count, after = hashlib.sha256(), 0, selection.after
    while True:
        part = replace(selection, after=after)
        async with services.database.statement() as connection:
            digests = await receipts.digests(connection, part, _DIGESTS_PAGE)
        for _, one in digests:
            digest.update(bytes.fromhex(one))
        count += len(digests)
        if count > MOST_EXPORTED:
            raise InvalidInput(
                f"An export has at most {MOST_EXPORTED:,} receipts.",
                "Export the rest by itself, after the last of this one.",
            )
        if len(digests) < _DIGESTS_PAGE:
            break
        after = digests[-1][0]
    signer = server_signer(services)
    end = ExportEnd(
        signer.address,
        selection.side,
        selection.account_id,
        count,
        digest.hexdigest(),
        _milliseconds(services.clock.now()),
    )
    return ExportEnd(
        end.server,
        end.scope,
        end.account_id,
        end.receipts,
        end.digest,
        end.exported_at_ms,
        signer.sign(export_end_digest(end)),
    )


def _verify(sent: Sequence[NodeSignedReceipt]) -> list[tuple[str, str | None]]:
    """The digest of each, and the address that signed it."""
    verified = []
    for one in sent:
        digest = receipt_digest(one.receipt)
        # The pattern of signatures allows an odd number of digits.
        is_even = len(one.node_signature) % 2 == 0
        signature = bytes.fromhex(one.node_signature[2:]) if is_even else b""
        verified.append((digest.hex(), recover(digest, signature)))
    return verified


def _names(one: NodeSignedReceipt, address: str, locked: LockedChain) -> bool:
    """Whether it names this server and its own key, so that it is of use nowhere else."""
    return (one.receipt.server, one.receipt.node_key) == (address, locked.node_key)


def _sent(one: NodeSignedReceipt, digest: str, is_signed: bool) -> SentReceipt:
    receipt = one.receipt
    return SentReceipt(
        receipt.number,
        digest,
        receipt.previous,
        AttemptId(receipt.attempt_id),
        receipt.task_id,
        receipt.node_id,
        receipt.account_id,
        receipt.part,
        receipt.is_last,
        is_signed,
    )


def _countersign(
    signer: Signer,
    taken: Sequence[tuple[NodeSignedReceipt, str]],
    facts: dict[AttemptId, AttemptFacts],
    locked: LockedChain,
) -> list[AddedReceipt]:
    added = []
    for one, digest in taken:
        attempt = facts[AttemptId(one.receipt.attempt_id)]
        accepted = _accepted(attempt, digest, locked)
        signature = signer.sign(countersignature_digest(accepted))
        signed = SignedReceipt(one.receipt, one.node_signature, accepted, signature)
        added.append(AddedReceipt(signed, digest))
    return added


def _accepted(attempt: AttemptFacts, digest: str, locked: LockedChain) -> Countersignature:
    return Countersignature(
        receipt=digest,
        chain_of_node=locked.ordinal,
        adoption=attempt.adoption,
        slices=attempt.slices,
        state=attempt.state,
        reason=attempt.reason or "",
        price_micro_per_hour=attempt.price_micro_per_hour,
        measured_ms=attempt.measured_ms(locked.now),
        charged_micro=attempt.charged_micro,
        held_back_micro=attempt.held_back_micro,
        fee_basis_points=attempt.fee_basis_points,
        signed_at_ms=_milliseconds(locked.now),
    )


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _count(
    services: Services, node_id: NodeId, taken: int, refusal: ReceiptRefusal | None, detail: str
) -> None:
    services.metrics.count_receipts("taken", taken)
    if refusal is not None:
        services.metrics.count_receipts(refusal, 1)
        log.warning("receipt refused", node_id=node_id, refusal=refusal, detail=detail)
