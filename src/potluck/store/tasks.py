"""Tasks: submitted, shown to their owner, cancelled while they wait.

What a task is made of (its spec: source, arguments, environment) is sealed. In the clear are its
name and what the scheduler looks at.
"""

import hashlib
import hmac
from datetime import timedelta
from typing import Any

from msgspec import Struct

from potluck.decide.explain import waits_for_time
from potluck.model.error import NotFound
from potluck.model.ids import AccountId, AttemptId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, Limits, Requirements, TaskRequest, TaskState
from potluck.model.usage import Usage
from potluck.store.database import Connection
from potluck.store.named import load
from potluck.store.vault import Vault
from potluck.wire import codec
from potluck.wire.consumer import AttemptDevice, AttemptView, TaskView

_sql = load("tasks")
# Where the spec is sealed; the row is the task's id.
SPEC = ("tasks", "sealed_spec")


class NewTask(Struct, frozen=True):
    id: TaskId
    account_id: AccountId
    request: TaskRequest
    request_hash: bytes
    idempotency_key: str | None


class EarlierSubmission(Struct, frozen=True):
    id: TaskId
    request_hash: bytes


def request_hash(key: bytes, request: TaskRequest) -> bytes:
    """Tells two requests apart. A hash without a key would let a reader try what one may say."""
    return hmac.digest(key, hashlib.sha256(codec.encode_json(request)).digest(), "sha256")


async def insert(connection: Connection, vault: Vault, task: NewTask) -> bool:
    """False when the account has used this idempotency key before."""
    request = task.request
    deadline = request.start_within_seconds
    inserted = await connection.fetchval(
        _sql.insert,
        task.id,
        task.account_id,
        request.name or request.spec.filename,
        request.spec.__struct_config__.tag,
        vault.seal(*SPEC, task.id, codec.encode_json(request.spec)),
        request.requirements,
        request.limits,
        request.priority,
        request.max_attempts,
        None if deadline is None else timedelta(seconds=deadline),
        task.idempotency_key,
        task.request_hash,
    )
    return inserted is not None


async def by_idempotency_key(
    connection: Connection, account_id: AccountId, key: str
) -> EarlierSubmission | None:
    row = await connection.fetchrow(_sql.by_idempotency_key, account_id, key)
    return EarlierSubmission(row["id"], row["request_hash"]) if row else None


async def get(connection: Connection, task_id: TaskId, account_id: AccountId) -> TaskView:
    found = await views(connection, [task_id], account_id)
    if not found:
        raise _no_such_task(task_id)
    return found[0]


async def views(
    connection: Connection, task_ids: list[TaskId], account_id: AccountId
) -> list[TaskView]:
    """Those of these tasks that are the account's, newest first."""
    rows = await connection.fetch(_sql.views, task_ids, account_id)
    return await _views(connection, rows)


async def lock(connection: Connection, task_id: TaskId, account_id: AccountId) -> TaskState:
    """The task's state, which nobody changes until this transaction ends."""
    state = await connection.fetchval(_sql.lock, task_id, account_id)
    if state is None:
        raise _no_such_task(task_id)
    return TaskState(state)


async def live_attempt(connection: Connection, task_id: TaskId) -> AttemptId | None:
    found = await connection.fetchval(_sql.live_attempt, task_id)
    return None if found is None else AttemptId(found)


async def finish_queued(
    connection: Connection, task_id: TaskId, state: TaskState, reason: EndReason
) -> AccountId | None:
    """Ends a task that waits; None when it does not wait any more."""
    found = await connection.fetchval(_sql.finish_queued, task_id, state, reason)
    return None if found is None else AccountId(found)


async def past_deadline(connection: Connection) -> list[TaskId]:
    return [TaskId(row["id"]) for row in await connection.fetch(_sql.past_deadline)]


async def start(connection: Connection, task_id: TaskId) -> AccountId | None:
    """Running; None when it already was."""
    found = await connection.fetchval(_sql.start, task_id)
    return None if found is None else AccountId(found)


async def touch(connection: Connection, task_id: TaskId) -> None:
    """Something about it changed that its owner may see."""
    await connection.execute(_sql.touch, task_id)


def _no_such_task(task_id: TaskId) -> NotFound:
    return NotFound(f"There is no task {task_id} of yours.", "`potluck ps` lists your tasks.")


async def _views(connection: Connection, rows: list[Any]) -> list[TaskView]:
    attempts: dict[str, list[AttemptView]] = {}
    for row in await connection.fetch(_sql.attempts, [row["id"] for row in rows]):
        attempts.setdefault(row["task_id"], []).append(_attempt_view(row))
    return [_task_view(row, attempts.get(row["id"], [])) for row in rows]


def _task_view(row: Any, attempts: list[AttemptView]) -> TaskView:
    state = TaskState(row["state"])
    return TaskView(
        id=row["id"],
        name=row["name"],
        kind=row["kind"],
        state=state,
        priority=row["priority"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        requirements=codec.decode_json(row["requirements"], Requirements),
        limits=codec.decode_json(row["limits"], Limits),
        version=row["version"],
        phase=_phase(state, attempts),
        exit_code=row["exit_code"],
        reason=_reason(row),
        detail=row["detail"],
        waiting=waits_for_time() if row["is_in_back_off"] else None,
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        charge_micro=row["charge_micro"],
        attempts=attempts,
    )


def _phase(state: TaskState, attempts: list[AttemptView]) -> str:
    preparing = bool(attempts) and attempts[-1].state is AttemptState.PREPARING
    return AttemptState.PREPARING.value if preparing else state.value


def _attempt_view(row: Any) -> AttemptView:
    usage = row["usage"]
    return AttemptView(
        id=row["id"],
        number=row["number"],
        state=AttemptState(row["state"]),
        node_id=row["node_id"],
        node_name=row["node_name"],
        devices=codec.decode_json(row["devices"], list[AttemptDevice]),
        assigned_at=row["assigned_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        exit_code=row["exit_code"],
        reason=_reason(row),
        detail=row["detail"],
        usage=None if usage is None else codec.decode_json(usage, Usage),
        charge_micro=row["charge_micro"],
    )


def _reason(row: Any) -> EndReason | None:
    return None if row["reason"] is None else EndReason(row["reason"])
