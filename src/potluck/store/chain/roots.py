"""Roots of rewards, and what each of them assigns to its contract."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from potluck.decide.payouts.payout_plan import LedgerRoot
from potluck.model.ids import AccountId
from potluck.model.payout import RootState, TransactionKind, TransactionState
from potluck.store.chain.scanned import ContractKey
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("chain_payouts")


class StoredRoot(Struct, frozen=True):
    number: int
    epoch: int | None  # the last one that it covers; None: taken over from the contract
    root: bytes
    total_units: int
    statement: bytes
    state: RootState
    is_partial: bool = False  # rewards were left for the next root

    @property
    def for_decision(self) -> LedgerRoot:
        return LedgerRoot(self.root, self.number, self.total_units, self.state)


class AssignedReward(Struct, frozen=True):
    """Claimable, and in no root yet."""

    account_id: AccountId
    address: str
    amount_micro: int


class ClosedEpoch(Struct, frozen=True):
    number: int
    statement_sha256: bytes


class RootOfEpoch(Struct, frozen=True):
    key: ContractKey
    root: StoredRoot
    kind: TransactionKind | None  # of its last transaction
    transaction_state: TransactionState | None
    transaction_hash: bytes | None
    waits_because: str | None  # None if nothing is in the way, or it is accepted


async def get(connection: Connection, key: ContractKey, number: int) -> StoredRoot:
    root = _root(await connection.fetchrow(*_sql.root(key=key, number=number)))
    assert root is not None, "a transaction refers to it"
    return root


async def get_latest(connection: Connection, key: ContractKey) -> StoredRoot | None:
    return _root(await connection.fetchrow(*_sql.latest_root(key=key)))


async def get_accepted(connection: Connection, key: ContractKey) -> StoredRoot | None:
    return _root(await connection.fetchrow(*_sql.accepted_root(key=key)))


async def has_root(connection: Connection, key: ContractKey, number: int, root: bytes) -> bool:
    has_root: bool = await connection.fetchval(*_sql.has_root(key=key, number=number, root=root))
    return has_root


async def list_of_epochs(connection: Connection, epochs: Sequence[int]) -> list[RootOfEpoch]:
    rows = await connection.fetch(*_sql.page(epochs=epochs))
    return [_root_of_epoch(row) for row in rows]


async def has_unassigned(connection: Connection) -> bool:
    """Whether there are rewards for a root, and no epoch is being closed."""
    has_unassigned: bool = await connection.fetchval(*_sql.has_unassigned())
    return has_unassigned


async def list_unassigned(connection: Connection, limit: int) -> list[AssignedReward]:
    """The largest."""
    rows = await connection.fetch(*_sql.unassigned(limit=limit))
    return [AssignedReward(**row) for row in rows]


async def get_last_epoch(connection: Connection) -> ClosedEpoch | None:
    row = await connection.fetchrow(*_sql.last_closed_epoch())
    return None if row is None else ClosedEpoch(**row)


async def list_leaves(connection: Connection, key: ContractKey, number: int) -> dict[str, int]:
    """What each wallet has of this contract up to a root, in micro-credits."""
    rows = await connection.fetch(*_sql.leaves(key=key, number=number))
    return {row["address"]: row["amount_micro"] for row in rows}


async def assign(
    connection: Connection, key: ContractKey, root: StoredRoot, rewards: Sequence[AssignedReward]
) -> bool:
    """Stores a root with what it assigns.

    False, and nothing, if these rewards are others now, or an epoch was closed since.
    """
    assert root.epoch is not None, "a root of this ledger covers an epoch"
    if await connection.fetchval(*_sql.lock_open_epoch()) != root.epoch + 1:
        return False
    found = await connection.fetch(*_sql.lock_unassigned(rewards=rewards))
    unchanged = sorted(rewards, key=lambda reward: reward.account_id)
    if [AssignedReward(**row) for row in found] != unchanged:
        return False
    await add(connection, key, root)
    await connection.execute(*_sql.add_rewards(key=key, number=root.number, rewards=rewards))
    await connection.execute(*_sql.assign(rewards=rewards))
    return True


async def add(connection: Connection, key: ContractKey, root: StoredRoot) -> None:
    await connection.execute(*_sql.add_root(key=key, root=root))


async def take_over(connection: Connection, key: ContractKey, root: StoredRoot) -> None:
    """Makes a root of the contract one of this ledger. It assigns nothing."""
    await connection.execute(*_sql.close_open_roots(key=key, number=root.number))
    await connection.execute(*_sql.take_over(key=key, root=root))


_EARLIER: Mapping[RootState, tuple[RootState, ...]] = {
    RootState.PLANNED: (RootState.REVOKED,),  # an admin has it proposed again
    RootState.PROPOSED: (RootState.PLANNED,),
    RootState.ACCEPTED: (RootState.PLANNED, RootState.PROPOSED, RootState.REVOKED),
    RootState.REVOKED: (RootState.PROPOSED,),
}


async def move(connection: Connection, key: ContractKey, number: int, state: RootState) -> bool:
    """False if it is not in a state before this one."""
    moved = await connection.fetchval(
        *_sql.move_root(key=key, number=number, state=state, earlier=_EARLIER[state])
    )
    return bool(moved)


def _root(row: Mapping[str, Any] | None) -> StoredRoot | None:
    if row is None:
        return None
    return StoredRoot(
        row["number"],
        row["epoch"],
        row["root"],
        int(row["total_units"]),
        row["statement"],
        RootState(row["state"]),
        row["is_partial"],
    )


def _root_of_epoch(row: Mapping[str, Any]) -> RootOfEpoch:
    root = _root(row)
    assert root is not None
    kind, state = row["kind"], row["transaction_state"]
    return RootOfEpoch(
        ContractKey(row["chain_id"], row["contract"]),
        root,
        None if kind is None else TransactionKind(kind),
        None if state is None else TransactionState(state),
        row["transaction_hash"],
        row["waits_because"],
    )
