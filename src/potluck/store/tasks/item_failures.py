"""Items of arrays that have failed: each has a row of its own. The rest are numbers and ranges."""

from collections.abc import Sequence

from potluck.decide.arrays.items import ItemFailure
from potluck.model.ids import AttemptId, TaskId
from potluck.model.task import EndReason
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire.consumer import FailedItem

_sql = load("items")


async def failures(connection: Connection, task_id: TaskId, items: Sequence[int]) -> dict[int, int]:
    """How often each of these has failed, as far as it has."""
    rows = await connection.fetch(_sql.failures, task_id, items) if items else []
    return {row["item"]: row["failures"] for row in rows}


async def fail(
    connection: Connection, task_id: TaskId, attempt_id: AttemptId, failed: Sequence[ItemFailure]
) -> None:
    if not failed:
        return
    await connection.execute(
        _sql.fail,
        task_id,
        attempt_id,
        [each.item for each in failed],
        [each.failures for each in failed],
        [each.is_final for each in failed],
        [each.reason for each in failed],
        [each.exit_code for each in failed],
        [each.detail for each in failed],
    )


async def page(
    connection: Connection, task_id: TaskId, behind: int, limit: int
) -> list[FailedItem]:
    """Items that have failed, in order, from behind this one on."""
    rows = await connection.fetch(_sql.page, task_id, behind, limit)
    return [
        FailedItem(
            row["item"],
            row["failures"],
            row["is_final"],
            row["attempt_id"],
            EndReason(row["reason"]),
            row["exit_code"],
            row["detail"],
        )
        for row in rows
    ]
