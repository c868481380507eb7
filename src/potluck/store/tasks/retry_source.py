"""What remains of an ended task, to submit it again."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from potluck.decide.arrays.retry_items import ArrayEnd
from potluck.model.ids import AccountId, TaskId
from potluck.model.task import Limits, Requirements, TaskRequest, TaskState
from potluck.model.task_spec import TaskSpec
from potluck.store.database import Connection
from potluck.store.item_ranges import item_ranges
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.tasks import SPEC, no_such_task
from potluck.wire import codec

_sql = load("retry")


class RetrySource(Struct, frozen=True):
    """A task's original request, without dependencies and secrets."""

    state: TaskState
    request: TaskRequest
    secret_count: int
    finished_at: datetime | None
    array: ArrayEnd | None
    is_stream: bool = False  # its inputs are stored beside it


async def load_source(
    connection: Connection, vault: Vault, task_id: TaskId, account_id: AccountId
) -> RetrySource:
    row = await connection.fetchrow(*_sql.ended(task_id=task_id, account_id=account_id))
    if row is None:
        raise no_such_task(task_id)
    return RetrySource(
        TaskState(row["state"]),
        _request(row, vault.open(*SPEC, task_id, row["sealed_spec"])),
        row["secret_count"],
        row["finished_at"],
        None if row["items"] is None else _array(row),
        row["is_stream"],
    )


def _request(row: Any, spec: bytes) -> TaskRequest:
    return TaskRequest(
        spec=codec.decode_json(spec, TaskSpec),  # type: ignore[arg-type]
        name=row["name"],
        requirements=codec.decode_stored(row["requirements"], Requirements),
        limits=codec.decode_stored(row["limits"], Limits),
        priority=row["priority"],
        max_attempts=row["max_attempts"],
        start_within_seconds=row["start_within_seconds"],
        delay_seconds=row["delay_seconds"],
        expected_seconds=row["expected_seconds"],
        items=row["items"],
        allow_failures=row["allow_failures"],
    )


def _array(row: Any) -> ArrayEnd:
    return ArrayEnd(
        row["items"],
        item_ranges(row["not_done"]),
        row["items_succeeded"],
        row["items_succeeded"] + row["items_failed"],
        row["items_seconds"],
    )
