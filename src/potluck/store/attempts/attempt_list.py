"""All attempts at a task, in pages; a task itself is shown with its newest few."""

from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.store.tasks.tasks import attempt_view
from potluck.wire.consumer import AttemptPage, TaskView

_sql = load("attempt_list")

# Of an array with a million attempts, those at one item are looked for in parts.
_LOOKED_AT = 5_000


async def page(
    connection: Connection, task: TaskView, cursor: int | None, limit: int, item: int | None
) -> AttemptPage:
    """Those before the number `cursor`, the newest first; of an array, those at an item."""
    behind_all = task.attempt_count + 1
    before = behind_all if cursor is None else min(cursor, behind_all)
    looked_at = limit if item is None else _LOOKED_AT
    rows = await connection.fetch(_sql.page, task.id, before, looked_at, item)
    # Attempts are numbered from 1 on without a gap.
    reached = before - looked_at
    return AttemptPage([attempt_view(row) for row in rows], reached if reached > 1 else None)
