"""The ledger's one verb. That it balances and that nobody goes negative is checked below it."""

from collections.abc import Sequence

from potluck.decide.settle import Entry
from potluck.model.ids import AttemptId
from potluck.store.database import Connection
from potluck.store.named import load

_sql = load("ledger")


async def append(
    connection: Connection, entries: Sequence[Entry], attempt_id: AttemptId | None = None
) -> None:
    if not entries:
        return
    await connection.execute(
        _sql.append,
        attempt_id,
        [entry.account_id for entry in entries],
        [entry.kind for entry in entries],
        [entry.purse for entry in entries],
        [entry.amount_micro for entry in entries],
    )
