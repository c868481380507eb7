"""What was paid outside the pool. The payer chooses the id of a payout."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.decide.epochs import payout_entries
from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.ledger import ledger
from potluck.store.ledger.ledger import Movement
from potluck.store.sql_files import load

_sql = load("payouts")


class Payout(Struct, frozen=True):
    id: str
    account_id: AccountId
    amount_micro: int
    reference: str = ""  # where to find it: of a bank, or of a chain


class RecordedPayout(Struct, frozen=True):
    payout: Payout
    address: str
    recorded_by: AccountId | None
    recorded_at: datetime


class ClaimableBalance(Struct, frozen=True):
    account_id: AccountId
    claimable_micro: int


class Claimant(Struct, frozen=True):
    """An account that is to be paid."""

    account_id: AccountId
    address: str
    label: str
    claimable_micro: int
    paid_micro: int
    unpaid_since_epoch: int | None  # the first epoch that payouts do not cover


class PayoutPosition(Struct, frozen=True):
    at: datetime
    id: str = ""


async def lock_claimable(
    connection: Connection, addresses: Sequence[str]
) -> dict[str, ClaimableBalance]:
    """By wallet; wallets without an account are left out. Locked until the transaction ends."""
    rows = await connection.fetch(*_sql.lock_claimable(addresses=addresses))
    return {
        row["address"]: ClaimableBalance(row["account_id"], row["claimable_micro"]) for row in rows
    }


async def list_recorded(connection: Connection, ids: Sequence[str]) -> dict[str, RecordedPayout]:
    rows = await connection.fetch(*_sql.recorded(ids=ids))
    return {row["id"]: _recorded(row) for row in rows}


async def record(
    connection: Connection, payouts: Sequence[Payout], recorded_by: AccountId | None
) -> None:
    """Records them, and moves their amounts from claimable to paid. Each id exists once."""
    if not payouts:
        return
    await connection.execute(*_sql.record(payouts=payouts, recorded_by=recorded_by))
    await ledger.append_many(
        connection,
        [
            Movement(payout_entries(payout.account_id, payout.amount_micro), payout_id=payout.id)
            for payout in payouts
        ],
    )


async def list_claimants(connection: Connection, after_id: str, limit: int) -> list[Claimant]:
    rows = await connection.fetch(*_sql.claimable(after_id=after_id, limit=limit))
    return [Claimant(**row) for row in rows]


async def page(
    connection: Connection, before: PayoutPosition, limit: int, account_id: AccountId | None = None
) -> list[RecordedPayout]:
    """The newest first."""
    rows = await connection.fetch(*_sql.page(before=before, limit=limit, account_id=account_id))
    return [_recorded(row) for row in rows]


async def position(
    connection: Connection, payout_id: str, account_id: AccountId | None = None
) -> PayoutPosition | None:
    """None if it is unknown, or not the account's."""
    at = await connection.fetchval(*_sql.position(id=payout_id, account_id=account_id))
    return None if at is None else PayoutPosition(at, payout_id)


def _recorded(row: Mapping[str, Any]) -> RecordedPayout:
    payout = Payout(row["id"], row["account_id"], row["amount_micro"], row["reference"])
    return RecordedPayout(payout, row["address"], row["recorded_by"], row["recorded_at"])
