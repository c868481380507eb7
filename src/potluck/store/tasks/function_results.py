"""Function results: small values sealed in the database, large ones as blobs.

The pieces of a task are numbered in order of arrival; a reader asks for those after a count.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from potluck.decide.attempt_change import NewResult
from potluck.model.blob import BlobRef, Value
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import EndReason, ItemRange, TaskState
from potluck.store.database import Connection
from potluck.store.item_ranges import item_ranges
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.last_lines import ATTEMPT_LINES, open_lines
from potluck.wire.results import ResultPiece

_sql = load("results")
# Where a value is sealed. An item has one result, so its row name needs no number.
VALUE = ("results", "sealed_value")


class ResultProgress(Struct, frozen=True):
    """A task's state, and the pieces after the reader's count, as far as they fit."""

    task_id: TaskId
    state: TaskState
    reason: EndReason | None
    detail: str
    result_count: int
    is_cleared: bool  # results may have existed, and were deleted
    pieces: list[ResultPiece]
    last_lines: str  # of a failed call
    cancelled: list[ItemRange]  # of a call stream


def seal_values(vault: Vault, results: Sequence[NewResult]) -> list[bytes | None]:
    return [None if result.value.blob else _sealed(vault, result) for result in results]


def _sealed(vault: Vault, piece: NewResult) -> bytes:
    return vault.seal(*VALUE, row_name(piece.task_id, piece.start), piece.value.data)


def row_name(task_id: str, start: int) -> str:
    return f"{task_id}/{start}"


async def load_progress(
    connection: Connection,
    vault: Vault,
    account_id: AccountId,
    behind: dict[TaskId, int],
    most_bytes: int,
    most_pieces: int,
) -> dict[TaskId, ResultProgress]:
    """Those of the tasks that are the account's, with the pieces after the given counts."""
    per_task = max(1, most_pieces // max(1, len(behind)))
    rows = await connection.fetch(
        *_sql.look(
            task_ids=list(behind),
            behind=list(behind.values()),
            account_id=account_id,
            max_bytes=most_bytes,
            limit=per_task,
        )
    )
    progress: dict[TaskId, ResultProgress] = {}
    for row in rows:
        task = progress.get(row["id"])
        if task is None:
            task = progress[row["id"]] = _progress(vault, row)
        if row["number"] is not None:
            task.pieces.append(_piece(vault, row))
    return progress


async def find(
    connection: Connection, vault: Vault, task_id: TaskId, item: int
) -> ResultPiece | None:
    """The result that contains this item; None if there is none, or not any more."""
    row = await connection.fetchrow(*_sql.find(task_id=task_id, item=item))
    return None if row is None else _piece(vault, row)


def _progress(vault: Vault, row: Any) -> ResultProgress:
    reason = None if row["reason"] is None else EndReason(row["reason"])
    return ResultProgress(
        row["id"],
        TaskState(row["state"]),
        reason,
        row["detail"],
        row["result_count"],
        row["is_cleared"],
        [],
        open_lines(vault, ATTEMPT_LINES, row["attempt_id"], row["sealed_last_lines"]),
        list(item_ranges(row["cancelled"])),
    )


def _piece(vault: Vault, row: Any) -> ResultPiece:
    return ResultPiece(
        row["start"], row["end"], _value(vault, row), row["is_error"], row["node_id"], row["wallet"]
    )


def _value(vault: Vault, row: Any) -> Value:
    if row["sha256"] is not None:
        return Value(blob=BlobRef(row["sha256"], row["size_bytes"]))
    place = row_name(row["task_id"], row["start"])
    return Value(vault.open(*VALUE, place, row["sealed_value"]))
