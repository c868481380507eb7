"""Failed array items, one row each; all other items are numbers and ranges."""

from collections.abc import Iterable, Sequence

import asyncpg

from potluck.decide.arrays.items import ItemFailure
from potluck.model.ids import AttemptId, TaskId
from potluck.model.task import MOST_ITEMS, EndReason, ItemRange
from potluck.store.database import Connection
from potluck.store.item_ranges import item_ranges
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.last_lines import ITEM_LINES, item_row, open_lines, seal_items
from potluck.wire.consumer import FailedItem, ItemCounts, ItemStates

_sql = load("items")
# Blocks that the states of items are rounded to: half as many ranges at most, of each state.
MOST_BLOCKS = 5_000
ALL_ITEMS = ItemRange(0, MOST_ITEMS)


async def count_failures(
    connection: Connection, task_id: TaskId, items: Sequence[int]
) -> dict[int, int]:
    """The failures of each of these items that has failed."""
    rows = await connection.fetch(*_sql.failures(task_id=task_id, items=items)) if items else []
    return {row["item"]: row["failures"] for row in rows}


async def record_failures(
    connection: Connection,
    vault: Vault,
    task_id: TaskId,
    attempt_id: AttemptId,
    failed: Sequence[ItemFailure],
) -> None:
    if not failed:
        return
    await connection.execute(
        *_sql.fail(
            task_id=task_id,
            attempt_id=attempt_id,
            failed_items=failed,
            sealed_last_lines=seal_items(vault, task_id, failed),
        )
    )


async def read_states(
    connection: Connection, task_id: TaskId, span: ItemRange = ALL_ITEMS
) -> ItemStates | None:
    """The states of the items in the span; None if the task is not an array."""
    row = await connection.fetchrow(
        *_sql.states(
            task_id=task_id, first_item=span.start, end_item=span.end, most_blocks=MOST_BLOCKS
        )
    )
    if row is None:
        return None
    return ItemStates(
        total=row["items"],
        pending=_ranges(row["pending"]),
        running=_ranges(row["running"]),
        failed=_ranges(row["failed"]),
        cancelled=_ranges(row["cancelled"]),
        is_stream=row["is_stream"],
        open_until=row["open_until"],
        block_items=row["block_items"],
        counts=ItemCounts(
            row["items"],
            row["items_pending"],
            row["items_succeeded"],
            row["items_failed"],
            row["items_cancelled"],
        ),
    )


def _ranges(stored: "Iterable[asyncpg.Range[int]] | None") -> list[ItemRange]:
    return list(item_ranges(stored or ()))


async def page(
    connection: Connection, vault: Vault, task_id: TaskId, behind: int, limit: int
) -> list[FailedItem]:
    """Failed items after this one, in order."""
    rows = await connection.fetch(*_sql.page(task_id=task_id, after_item=behind, limit=limit))
    return [
        FailedItem(
            row["item"],
            row["failures"],
            row["is_final"],
            row["attempt_id"],
            EndReason(row["reason"]),
            row["exit_code"],
            row["detail"],
            open_lines(vault, ITEM_LINES, item_row(task_id, row["item"]), row["sealed_last_lines"]),
        )
        for row in rows
    ]
