"""Epochs, and each account's part of them. Rewards are counted once, when an epoch is closed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.decide.epochs import EpochReward, UncountedRewards
from potluck.model.credit import RewardsTo
from potluck.model.ids import AccountId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("epochs")
# Behind every number.
NEWEST = 2**31 - 1


class OpenEpoch(Struct, frozen=True):
    number: int
    starts_at: datetime
    ends_at: datetime
    closing_at: datetime | None
    now: datetime  # by the database's clock

    @property
    def is_over(self) -> bool:
        return self.now >= self.ends_at


class Epoch(Struct, frozen=True):
    """The figures are those of all accounts; they are zero until it is closed."""

    number: int
    starts_at: datetime
    ends_at: datetime
    closed_at: datetime | None
    accounts: int
    earned_micro: int
    fee_micro: int
    amount_micro: int
    cumulative_micro: int  # set aside in all epochs so far
    statement_sha256: bytes | None


class WalletReward(Struct, frozen=True):
    """An account's part of an epoch, with its wallet."""

    address: str
    reward: EpochReward


class AccountEpoch(Struct, frozen=True):
    number: int
    starts_at: datetime
    ends_at: datetime
    closed_at: datetime
    reward: EpochReward


class RewardsStanding(Struct, frozen=True):
    """What an account has earned, and where it is now."""

    rewards_to: RewardsTo
    available_micro: int
    held_micro: int
    held_back_micro: int
    claimable_micro: int
    earned_micro: int  # ever
    fee_micro: int  # ever
    paid_micro: int  # ever
    epoch_earned_micro: int  # not counted by a closed epoch
    epoch_fee_micro: int
    carried_micro: int


async def open_first(connection: Connection, ends_at: datetime) -> None:
    """Without effect if there is an epoch."""
    await connection.execute(*_sql.open_first(ends_at=ends_at))


async def read_time(connection: Connection) -> datetime:
    """By the clock of the database."""
    now: datetime = await connection.fetchval(*_sql.time())
    return now


async def lock_open(connection: Connection) -> OpenEpoch | None:
    """The open epoch, which no other transaction closes until this one ends."""
    row = await connection.fetchrow(*_sql.lock_open())
    return None if row is None else OpenEpoch(**row)


async def begin_closing(connection: Connection, number: int) -> None:
    await connection.execute(*_sql.begin_closing(number=number))


async def list_uncounted(
    connection: Connection, number: int, after_id: str, limit: int
) -> list[AccountId]:
    """The next accounts that have no part of this epoch yet, and earned something."""
    rows = await connection.fetch(*_sql.uncounted(number=number, after_id=after_id, limit=limit))
    return [row["account_id"] for row in rows]


async def lock_uncounted(
    connection: Connection, number: int, account_ids: Sequence[AccountId]
) -> list[UncountedRewards]:
    """Their balances do not change until the transaction ends."""
    rows = await connection.fetch(*_sql.lock_uncounted(number=number, account_ids=account_ids))
    return [UncountedRewards(**{**row, "rewards_to": RewardsTo(row["rewards_to"])}) for row in rows]


async def count(connection: Connection, number: int, rewards: Sequence[EpochReward]) -> None:
    """Writes these parts. The caller holds the locks, and adds the ledger entries."""
    await connection.execute(*_sql.count(number=number, rewards=rewards))


async def finish(
    connection: Connection, number: int, statement_sha256: bytes, next_ends_at: datetime
) -> None:
    """Closes the epoch, which the caller has locked and counted, and opens the next one."""
    await connection.execute(*_sql.finish(number=number, statement_sha256=statement_sha256))
    await connection.execute(*_sql.open_next(number=number, ends_at=next_ends_at))


async def get(connection: Connection, number: int) -> Epoch | None:
    row = await connection.fetchrow(*_sql.get(number=number))
    return None if row is None else _epoch(row)


async def page(connection: Connection, before_number: int, limit: int) -> list[Epoch]:
    """The newest first."""
    rows = await connection.fetch(*_sql.page(before_number=before_number, limit=limit))
    return [_epoch(row) for row in rows]


async def rewards_of_epoch(
    connection: Connection, number: int, account_id: AccountId | None = None
) -> list[WalletReward]:
    """Of all accounts or of one, in the order of their wallets."""
    rows = await connection.fetch(*_sql.rewards_of_epoch(number=number, account_id=account_id))
    return [WalletReward(row["address"], _reward(row)) for row in rows]


async def of_account(
    connection: Connection, account_id: AccountId, before_number: int, limit: int
) -> list[AccountEpoch]:
    """The closed epochs in which it earned something, the newest first."""
    rows = await connection.fetch(
        *_sql.of_account(account_id=account_id, before_number=before_number, limit=limit)
    )
    return [
        AccountEpoch(row["epoch"], row["starts_at"], row["ends_at"], row["closed_at"], _reward(row))
        for row in rows
    ]


async def set_rewards_to(
    connection: Connection, account_id: AccountId, rewards_to: RewardsTo
) -> bool:
    """Returns whether this is a change. It is in effect when the next epoch is closed."""
    changed = await connection.fetchval(
        *_sql.set_rewards_to(account_id=account_id, rewards_to=rewards_to)
    )
    return changed is not None


async def standing(connection: Connection, account_id: AccountId) -> RewardsStanding:
    row = await connection.fetchrow(*_sql.standing(account_id=account_id))
    assert row is not None, "every account has a balance row"
    return RewardsStanding(**{**row, "rewards_to": RewardsTo(row["rewards_to"])})


def _epoch(row: Mapping[str, Any]) -> Epoch:
    return Epoch(
        row["number"],
        row["starts_at"],
        row["ends_at"],
        row["closed_at"],
        row["accounts"] or 0,
        row["earned_micro"] or 0,
        row["fee_micro"] or 0,
        row["amount_micro"] or 0,
        row["cumulative_micro"] or 0,
        row["statement_sha256"],
    )


def _reward(row: Mapping[str, Any]) -> EpochReward:
    return EpochReward(
        row["account_id"],
        row["earned_micro"],
        row["fee_micro"],
        row["held_back_micro"],
        RewardsTo(row["rewards_to"]),
        row["amount_micro"],
        row["cumulative_micro"],
    )
