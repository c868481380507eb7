"""What functions gave: small values sealed in the database, large ones as blobs.

Pieces of a task are numbered as they come; whoever knows the first so many asks for those behind.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from potluck.decide.attempt_change import NewResult
from potluck.model.blob import BlobRef, Value
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import EndReason, TaskState
from potluck.store.database import Connection
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.wire.results import ResultPiece

_sql = load("results")
# Where a value is sealed. An item has one result, so the row is known before it has a number.
VALUE = ("results", "sealed_value")


class ResultProgress(Struct, frozen=True):
    """How far a task is, and what it has given that is not known yet, as far as that fits."""

    task_id: TaskId
    state: TaskState
    reason: EndReason | None
    detail: str
    result_count: int
    is_cleared: bool  # it had some perhaps, and they are kept no longer
    pieces: list[ResultPiece]


def sealed_values(vault: Vault, results: Sequence[NewResult]) -> list[bytes | None]:
    return [None if result.value.blob else _sealed(vault, result) for result in results]


def _sealed(vault: Vault, piece: NewResult) -> bytes:
    return vault.seal(*VALUE, place_of(piece.task_id, piece.start), piece.value.data)


def place_of(task_id: str, start: int) -> str:
    return f"{task_id}/{start}"


async def look(
    connection: Connection,
    vault: Vault,
    account_id: AccountId,
    behind: dict[TaskId, int],
    most_bytes: int,
    most_pieces: int,
) -> dict[TaskId, ResultProgress]:
    """Those of these tasks that are the account's, with what is behind so many pieces of each."""
    each = max(1, most_pieces // max(1, len(behind)))
    rows = await connection.fetch(
        *_sql.look(
            task_ids=list(behind),
            behind=list(behind.values()),
            account_id=account_id,
            max_bytes=most_bytes,
            limit=each,
        )
    )
    found: dict[TaskId, ResultProgress] = {}
    for row in rows:
        task = found.get(row["id"])
        if task is None:
            task = found[row["id"]] = _progress(row)
        if row["number"] is not None:
            task.pieces.append(_piece(vault, row))
    return found


def _progress(row: Any) -> ResultProgress:
    reason = None if row["reason"] is None else EndReason(row["reason"])
    return ResultProgress(
        row["id"],
        TaskState(row["state"]),
        reason,
        row["detail"],
        row["result_count"],
        row["is_cleared"],
        [],
    )


def _piece(vault: Vault, row: Any) -> ResultPiece:
    return ResultPiece(
        row["start"],
        row["end"],
        _value(vault, row),
        row["is_error"],
        row["node_id"],
        row["wallet"],
    )


def _value(vault: Vault, row: Any) -> Value:
    if row["sha256"] is not None:
        return Value(blob=BlobRef(row["sha256"], row["size_bytes"]))
    place = place_of(row["task_id"], row["start"])
    return Value(vault.open(*VALUE, place, row["sealed_value"]))
