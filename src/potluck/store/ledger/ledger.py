"""Movements of credit. The database checks that they balance and that no balance is negative."""

from collections.abc import Sequence

from msgspec import Struct

from potluck.decide.charges import LedgerSide
from potluck.model.ids import AttemptId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("ledger")


class Movement(Struct, frozen=True):
    """Entries that sum to zero: for one life of an attempt, an epoch, a payout or a deposit."""

    entries: Sequence[LedgerSide]
    attempt_id: AttemptId | None = None
    adoption: int = 0  # which life: a re-adopted attempt is held for and settled again
    slice: int = 0  # of that life; 0 for its grant, and for its end if there was no slice
    epoch: int | None = None  # the closed one whose rewards are set aside
    payout_id: str | None = None
    deposit_id: int | None = None


class Side(Struct, frozen=True):
    movement: Movement
    entry: LedgerSide


async def append(
    connection: Connection, entries: Sequence[LedgerSide], attempt_id: AttemptId | None = None
) -> None:
    await append_many(connection, [Movement(entries, attempt_id)])


async def append_many(connection: Connection, movements: Sequence[Movement]) -> None:
    """In one statement: balances are locked in the order of their ids."""
    sides = [Side(movement, entry) for movement in movements for entry in movement.entries]
    if sides:
        await connection.execute(*_sql.append(sides=sides))
