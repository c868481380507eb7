"""The outbox of the treasury: intended, signed, broadcast and settled transactions."""

from msgspec import Struct

from potluck.decide.payouts.outbox import (
    OPEN_STATES,
    TRANSACTION_TRANSITIONS,
    GasFee,
    OpenTransaction,
    SettleTransaction,
    TransactionVersion,
)
from potluck.model.payout import TransactionKind, TransactionState
from potluck.store.chain.scanned import ContractKey
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("chain_payouts")


class TransactionIntent(Struct, frozen=True):
    number: int  # of the root that it is about
    kind: TransactionKind
    sender: str
    nonce: int
    gas: int


class StoredTransaction(Struct, frozen=True):
    id: int
    intent: TransactionIntent
    open: OpenTransaction


async def get_open(connection: Connection, key: ContractKey) -> StoredTransaction | None:
    row = await connection.fetchrow(*_sql.open_transaction(key=key))
    if row is None:
        return None
    versions = await connection.fetch(*_sql.versions(transaction_id=row["id"]))
    return StoredTransaction(
        row["id"],
        TransactionIntent(
            row["number"], TransactionKind(row["kind"]), row["sender"], row["nonce"], row["gas"]
        ),
        OpenTransaction(
            TransactionState(row["state"]),
            row["nonce"],
            tuple(
                TransactionVersion(
                    version["hash"],
                    version["raw"],
                    GasFee(int(version["max_fee"]), int(version["max_tip"])),
                    version["signed_at"],
                    version["broadcast_at"],
                )
                for version in versions
            ),
        ),
    )


async def intend(connection: Connection, key: ContractKey, intent: TransactionIntent) -> bool:
    """False if another transaction is open, or has this nonce."""
    return await connection.fetchval(*_sql.intend(key=key, intent=intent)) is not None


async def store_version(
    connection: Connection, transaction_id: int, raw: bytes, hash_: bytes, fee: GasFee
) -> None:
    """Before anyone is shown it."""
    if not await _move(connection, transaction_id, TransactionState.SIGNED):
        return
    await connection.execute(
        *_sql.add_version(transaction_id=transaction_id, raw=raw, hash=hash_, fee=fee)
    )


async def mark_broadcast(connection: Connection, transaction_id: int, hash_: bytes) -> None:
    if not await _move(connection, transaction_id, TransactionState.BROADCAST):
        return
    await connection.execute(*_sql.mark_broadcast(hash=hash_))


async def settle(connection: Connection, transaction_id: int, settled: SettleTransaction) -> bool:
    """False if it was settled before."""
    return await _move(connection, transaction_id, settled.state, settled.hash, settled.block)


async def count_by_state(connection: Connection) -> dict[str, int]:
    return {row["state"]: row["transactions"] for row in await connection.fetch(*_sql.counts())}


async def _move(
    connection: Connection,
    transaction_id: int,
    state: TransactionState,
    hash_: bytes | None = None,
    block_number: int | None = None,
) -> bool:
    """Guarded by the table of transitions; the same state again changes nothing."""
    found = await connection.fetchval(*_sql.lock_transaction(transaction_id=transaction_id))
    before = TransactionState(found)
    if before is not state and state not in TRANSACTION_TRANSITIONS[before]:
        return False
    await connection.execute(
        *_sql.move_transaction(
            transaction_id=transaction_id,
            state=state,
            is_settled=state not in OPEN_STATES,
            hash=hash_,
            block_number=block_number,
        )
    )
    return True
