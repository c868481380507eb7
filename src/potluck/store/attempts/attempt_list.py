"""All attempts at a task, in pages; a task itself is shown with its newest few."""

from potluck.store.database import Connection
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.tasks import attempt_view
from potluck.wire.consumer import AttemptPage, TaskView

_sql = load("attempt_list")

# An array may have a million attempts: those at one item are searched in parts.
_SCAN = 5_000


async def page(
    connection: Connection,
    vault: Vault,
    task: TaskView,
    cursor: int | None,
    limit: int,
    item: int | None,
) -> AttemptPage:
    """Attempts before the number `cursor`, newest first; for an array, optionally at one item."""
    after_all = task.attempt_count + 1
    before = after_all if cursor is None else min(cursor, after_all)
    scanned = limit if item is None else _SCAN
    rows = await connection.fetch(
        *_sql.page(task_id=task.id, before_number=before, limit=scanned, item=item)
    )
    # Attempts are numbered from 1 on without a gap.
    reached = before - scanned
    views = [attempt_view(vault, row) for row in rows]
    return AttemptPage(views, reached if reached > 1 else None)
