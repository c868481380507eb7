"""Charges of attempts that run, and of lost ones whose reward is held back."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from msgspec import Struct

from potluck.decide.charges import Settlement, SliceCharge
from potluck.decide.failure_record import UNJUDGED_SECONDS
from potluck.decide.locked_attempt import LockedAttempt
from potluck.model.ids import AccountId, AttemptId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("slices")


class ChargedSlice(Struct, frozen=True):
    attempt: LockedAttempt
    due: SliceCharge


class UnjudgedFailure(Struct, frozen=True):
    seconds: float  # that it ran
    has_waited: bool  # so long that it is paid, whatever it can be compared with


async def list_due(connection: Connection, limit: int) -> list[AttemptId]:
    """Attempts whose slice has ended, the longest overdue first."""
    return [row["id"] for row in await connection.fetch(*_sql.due(limit=limit))]


async def list_unresolved(connection: Connection, limit: int) -> list[AttemptId]:
    """Lost attempts that cannot be re-adopted, and whose reward is held back."""
    return [row["id"] for row in await connection.fetch(*_sql.unresolved(limit=limit))]


async def list_unjudged(
    connection: Connection, longest_seconds: float, limit: int
) -> dict[AttemptId, UnjudgedFailure]:
    """Failed attempts whose reward is held back: of tasks that are over, or for this long."""
    rows = await connection.fetch(
        *_sql.unjudged(
            unjudged_duration=timedelta(seconds=UNJUDGED_SECONDS),
            longest_duration=timedelta(seconds=longest_seconds),
            limit=limit,
        )
    )
    return {row["id"]: UnjudgedFailure(row["seconds"], row["has_waited"]) for row in rows}


async def lock_balances(
    connection: Connection, account_ids: Sequence[AccountId]
) -> dict[AccountId, int]:
    """What is available in each account, until the transaction ends."""
    rows = await connection.fetch(*_sql.lock_balances(account_ids=account_ids))
    return {row["account_id"]: row["available_micro"] for row in rows}


async def write(connection: Connection, slices: Sequence[ChargedSlice]) -> None:
    """The caller adds the ledger entries in this transaction."""
    await connection.execute(*_sql.write(slices=slices))


async def resolve(connection: Connection, settlements: Mapping[AttemptId, Settlement]) -> None:
    """Of attempts that have ended. The caller adds the ledger entries in this transaction."""
    if not settlements:
        return
    await connection.execute(
        *_sql.resolve(attempt_ids=list(settlements), settlements=list(settlements.values()))
    )
