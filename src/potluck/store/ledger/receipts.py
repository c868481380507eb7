"""Receipts that nodes signed and the server countersigned, in chains."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.decide.receipt_chain import AttemptFacts, ChainHead
from potluck.model.ids import AccountId, AttemptId, NodeId
from potluck.model.lease import AttemptState
from potluck.store.database import Connection
from potluck.store.nodes.nodes import Owner
from potluck.store.sql_files import load
from potluck.wire import codec
from potluck.wire.signing.receipt import (
    NO_HASH,
    Countersignature,
    CountersignedReceipt,
    Receipt,
    ReceiptSide,
    ReceiptState,
    SignedReceipt,
)

_sql = load("receipts")


class LockedChain(Struct, frozen=True):
    """A chain of a node, until the transaction ends."""

    ordinal: int
    node_key: str
    head: ChainHead
    now: datetime


class AddedReceipt(Struct, frozen=True):
    signed: SignedReceipt
    digest: str


class StoredReceipt(Struct, frozen=True):
    id: int
    digest: str
    signed: SignedReceipt


class ReceiptSelection(Struct, frozen=True):
    """Receipts of an account, as the owner of the nodes or of the tasks, taken after `after`."""

    account_id: AccountId
    side: ReceiptSide
    after: int = 0
    until: int = 2**63 - 1
    node_id: NodeId | None = None


async def lock_chain(
    connection: Connection, node_id: NodeId, owner: Owner, chain: str
) -> LockedChain | None:
    """None if this key does not speak for the node."""
    node_key = await connection.fetchval(*_sql.lock_node(node_id=node_id, owner=owner))
    if node_key is None:
        return None
    row = await connection.fetchrow(
        *_sql.open_chain(node_id=node_id, chain=chain, node_key=node_key, first_digest=NO_HASH)
    )
    head = ChainHead(row["receipts"], row["last_digest"])
    return LockedChain(row["ordinal"], row["node_key"], head, row["now"])


async def stored(
    connection: Connection, node_id: NodeId, chain: str, numbers: Sequence[int]
) -> dict[int, tuple[str, CountersignedReceipt]]:
    """Digests and countersignatures of those that the chain has already."""
    rows = await connection.fetch(*_sql.stored(node_id=node_id, chain=chain, numbers=numbers))
    return {row["number"]: (row["digest"], _countersigned(row)) for row in rows}


async def facts(
    connection: Connection, node_id: NodeId, attempt_ids: Sequence[str]
) -> dict[AttemptId, AttemptFacts]:
    """Of those attempts that are of this node."""
    rows = await connection.fetch(*_sql.facts(node_id=node_id, attempt_ids=attempt_ids))
    return {row["id"]: _facts(row) for row in rows}


async def add(
    connection: Connection,
    node_id: NodeId,
    provider_id: AccountId,
    chain: str,
    head: ChainHead,
    added: Sequence[AddedReceipt],
) -> None:
    await connection.execute(
        *_sql.add(node_id=node_id, provider_id=provider_id, chain=chain, head=head, added=added)
    )


async def count_fork(connection: Connection, node_id: NodeId, chain: str) -> None:
    await connection.execute(*_sql.count_fork(node_id=node_id, chain=chain))


async def page(
    connection: Connection, selection: ReceiptSelection, limit: int
) -> list[StoredReceipt]:
    is_provider = selection.side is ReceiptSide.PROVIDER
    query = _sql.of_provider if is_provider else _sql.of_consumer
    rows = await connection.fetch(*query(selection=selection, limit=limit))
    return [StoredReceipt(row["id"], row["digest"], _signed(row)) for row in rows]


async def digests(
    connection: Connection, selection: ReceiptSelection, limit: int
) -> list[tuple[int, str]]:
    """The place and the digest of each, without the receipts."""
    is_provider = selection.side is ReceiptSide.PROVIDER
    query = _sql.digests_of_provider if is_provider else _sql.digests_of_consumer
    rows = await connection.fetch(*query(selection=selection, limit=limit))
    return [(row["id"], row["digest"]) for row in rows]


async def attempt_states(
    connection: Connection,
    account_id: AccountId,
    side: ReceiptSide,
    before_id: str | None,
    limit: int,
) -> list[ReceiptState]:
    """Ended attempts, newest first, and which of them have receipts."""
    is_provider = side is ReceiptSide.PROVIDER
    query = _sql.attempts_of_provider if is_provider else _sql.attempts_of_consumer
    rows = await connection.fetch(*query(account_id=account_id, before_id=before_id, limit=limit))
    return [
        ReceiptState(
            attempt_id=row["id"],
            task_id=row["task_id"],
            node_id=row["node_id"],
            node_name=row["node_name"],
            finished_at=row["finished_at"],
            state=AttemptState(row["state"]),
            reason=row["reason"],
            price_micro_per_hour=row["price_micro_per_hour"],
            charged_micro=row["charge_micro"],
            receipts=row["receipts"],
            worked_ms=row["worked_ms"],
            is_complete=row["has_last"],
        )
        for row in rows
    ]


def _facts(row: Mapping[str, Any]) -> AttemptFacts:
    return AttemptFacts(
        id=row["id"],
        task_id=row["task_id"],
        node_id=row["node_id"],
        consumer_id=row["consumer_id"],
        state=AttemptState(row["state"]),
        reason=row["reason"],
        adoption=row["adoptions"],
        slices=row["slices"],
        price_micro_per_hour=row["price_micro_per_hour"],
        charged_micro=row["charge_micro"],
        held_back_micro=row["held_back_micro"],
        fee_basis_points=row["fee_basis_points"],
        run_seconds_limit=row["run_seconds_limit"],
        fetched_at=row["fetched_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        parts=row["parts"],
        has_last=row["has_last"],
    )


def _countersigned(row: Mapping[str, Any]) -> CountersignedReceipt:
    countersignature = codec.decode_stored(row["countersignature"], Countersignature)
    return CountersignedReceipt(countersignature, row["server_signature"])


def _signed(row: Mapping[str, Any]) -> SignedReceipt:
    half = _countersigned(row)
    return SignedReceipt(
        codec.decode_stored(row["receipt"], Receipt),
        row["node_signature"],
        half.countersignature,
        half.server_signature,
    )
