"""Movements of credit. That they balance and that nobody goes negative is checked below this."""

from collections.abc import Sequence

from msgspec import Struct

from potluck.decide.charges import Entry
from potluck.model.ids import AttemptId
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("ledger")


class Movement(Struct, frozen=True):
    """Entries that sum to zero, for one life of an attempt or for none."""

    entries: Sequence[Entry]
    attempt_id: AttemptId | None = None
    adoption: int = 0  # which life: an attempt that was taken back is held for and settled anew


async def append(
    connection: Connection, entries: Sequence[Entry], attempt_id: AttemptId | None = None
) -> None:
    await append_many(connection, [Movement(entries, attempt_id)])


async def append_many(connection: Connection, movements: Sequence[Movement]) -> None:
    """All at once: the balances are locked in the order of their ids."""
    sides = [(movement, entry) for movement in movements for entry in movement.entries]
    if not sides:
        return
    await connection.execute(
        _sql.append,
        [movement.attempt_id for movement, _ in sides],
        [movement.adoption for movement, _ in sides],
        [entry.account_id for _, entry in sides],
        [entry.kind for _, entry in sides],
        [entry.purse for _, entry in sides],
        [entry.amount_micro for _, entry in sides],
    )
