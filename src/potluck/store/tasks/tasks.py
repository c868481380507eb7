"""Tasks: submitted, shown to their owner, cancelled while they wait.

A task's spec (source, arguments, environment) and its secrets are sealed. Its name and the data for
the scheduler are in the clear.
"""

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from msgspec import Struct

from potluck.decide.arrays.retry_items import RetryPlan
from potluck.model.error import NotFound
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, Limits, Requirements, TaskRequest, TaskState
from potluck.model.task_spec import kind_of, name_of
from potluck.model.usage import Usage
from potluck.store.database import Connection
from potluck.store.item_ranges import multirange
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import BoundCalls, bind_many, load
from potluck.store.tasks.last_lines import ATTEMPT_LINES, open_lines
from potluck.wire import codec
from potluck.wire.consumer import AttemptDevice, AttemptView, ItemCounts, TaskView

_sql = load("tasks")
# Where spec and secrets are sealed; the row is the task's id.
SPEC = ("tasks", "sealed_spec")
SECRETS = ("tasks", "sealed_secrets")
# Attempts in the view of a task, and in a page of views; each has at least two.
_NEWEST_ATTEMPTS = 20
_PAGE_ATTEMPTS = 1_000
# Of requirements and limits in a page: the largest tasks have 25 KiB, ordinary ones less than one.
_PAGE_CHARACTERS = 1_048_576


class Origin(Struct, frozen=True):
    """The task that a new one retries; for an array, which of its items."""

    task_id: TaskId
    items: RetryPlan | None = None
    all_items: bool = False  # part of the request, for idempotency


class NewTask(Struct, frozen=True):
    id: TaskId
    account_id: AccountId
    request: TaskRequest
    request_hash: bytes
    idempotency_key: str | None
    origin: Origin | None = None
    traceparent: str | None = None


class EarlierSubmission(Struct, frozen=True):
    id: TaskId
    request_hash: bytes


class TaskChanged(Exception):
    """The task is not as its caller has seen it."""


class TaskVersion(Struct, frozen=True):
    id: TaskId
    version: int
    name: str
    state: TaskState


class NodeContact(Struct, frozen=True):
    """The last contact with the node of a live attempt."""

    seen_at: datetime
    lease_expires_at: datetime
    read_at: datetime


class TaskRecord(Struct, frozen=True):
    """A task as its owner sees it, without its waiting reason but with the data for it."""

    view: TaskView
    waits_for: int  # tasks that must succeed first
    is_put_off: bool  # its `not_before` is in the future
    contact: NodeContact | None = None  # of its live attempt


def request_hash(key: bytes, request: TaskRequest, origin: Origin | None = None) -> bytes:
    """Identifies a request. Keyed, since a plain hash would allow guessing the content."""
    encoded = codec.encode_json(request if origin is None else (request, origin))
    return hmac.digest(key, hashlib.sha256(encoded).digest(), "sha256")


async def insert(connection: Connection, vault: Vault, task: NewTask, waits_for: int) -> bool:
    """Stores the task and its event. False if the account has used this key before."""
    values = _values(vault, task, waits_for)
    return await connection.fetchval(*_sql.insert(**values)) is not None


def seal_many(vault: Vault, new: Sequence[NewTask], waits_for: Mapping[TaskId, int]) -> BoundCalls:
    """For `insert_many`; `waits_for` counts the open dependencies of those with any."""
    calls = [_values(vault, task, waits_for.get(task.id, 0)) for task in new]
    return bind_many(_sql.insert, calls)


async def insert_many(connection: Connection, sealed: BoundCalls) -> int:
    """Returns how many had a new key."""
    return len(await connection.fetchmany(*sealed))


def _values(vault: Vault, task: NewTask, waits_for: int) -> dict[str, Any]:
    request, plan = task.request, _items_plan(task)
    return {
        "task": task,
        "request": request,
        "name": request.name or name_of(request.spec),
        "kind": kind_of(request.spec),
        "sealed_spec": vault.seal(*SPEC, task.id, codec.encode_json(request.spec)),
        "start_within": _interval(request.start_within_seconds),
        "delay": _interval(request.delay_seconds),
        "waits_for": waits_for,
        "carried_over": plan,
        "pending": multirange(plan.pending),
        "sealed_secrets": _sealed_secrets(vault, task),
        "secret_count": len(request.secrets),
        "retry_of": None if task.origin is None else task.origin.task_id,
    }


def _items_plan(task: NewTask) -> RetryPlan:
    """The items to run, and the results carried over from the origin."""
    if task.origin is not None and task.origin.items is not None:
        return task.origin.items
    items = task.request.items
    return RetryPlan(() if items is None else (ItemRange(0, items),))


def _sealed_secrets(vault: Vault, task: NewTask) -> bytes | None:
    secrets = task.request.secrets
    return vault.seal(*SECRETS, task.id, codec.encode_json(secrets)) if secrets else None


def _interval(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


async def by_idempotency_key(
    connection: Connection, account_id: AccountId, key: str
) -> EarlierSubmission | None:
    """What the account submitted with this key, perhaps concurrently."""
    row = await connection.fetchrow(
        *_sql.by_idempotency_key(account_id=account_id, idempotency_key=key)
    )
    return None if row is None else EarlierSubmission(row["id"], row["request_hash"])


async def has_key(connection: Connection, account_id: AccountId, keys: Sequence[str]) -> bool:
    """Whether the account has submitted a task with one of these keys."""
    return bool(
        await connection.fetchval(*_sql.has_key(account_id=account_id, idempotency_keys=keys))
    )


async def get(
    connection: Connection, vault: Vault, task_id: TaskId, account_id: AccountId
) -> TaskRecord:
    records = await views(connection, vault, [task_id], account_id)
    if not records:
        raise no_such_task(task_id)
    return records[0]


async def views(
    connection: Connection, vault: Vault, task_ids: list[TaskId], account_id: AccountId
) -> list[TaskRecord]:
    """Those of the tasks that are the account's, newest first."""
    rows = await connection.fetch(*_sql.views(task_ids=task_ids, account_id=account_id))
    return await _views(connection, vault, rows)


async def page_of_views(
    connection: Connection, vault: Vault, task_ids: list[TaskId], account_id: AccountId
) -> tuple[list[TaskRecord], TaskId | None]:
    """As `views`, but only the newest ones if all together are too large for a page.

    Then also the id of the last one, after which the next page begins.
    """
    rows = await connection.fetch(*_sql.views(task_ids=task_ids, account_id=account_id))
    sizes = accumulate(len(row["requirements"]) + len(row["limits"]) for row in rows)
    count = sum(size <= _PAGE_CHARACTERS for size in sizes)
    shown = rows[: max(1, count)]
    last_id = TaskId(shown[-1]["id"]) if len(shown) < len(rows) else None
    return await _views(connection, vault, shown), last_id


async def failed_on(
    connection: Connection, task_ids: Sequence[TaskId]
) -> dict[TaskId, list[NodeId]]:
    """The nodes on which these tasks failed or were lost."""
    rows = await connection.fetch(*_sql.failed_on(task_ids=task_ids))
    return {row["task_id"]: row["node_ids"] for row in rows}


async def lock(
    connection: Connection, task_id: TaskId, account_id: AccountId, version: int | None = None
) -> TaskState:
    """Locks the task; returns its state. Raises TaskChanged if it is not this version."""
    row = await connection.fetchrow(*_sql.lock(task_id=task_id, account_id=account_id))
    if row is None:
        raise no_such_task(task_id)
    if version is not None and row["version"] != version:
        raise TaskChanged
    return TaskState(row["state"])


async def versions(
    connection: Connection, task_ids: list[TaskId], account_id: AccountId
) -> list[TaskVersion]:
    """Those of the tasks that are the account's, newest first."""
    rows = await connection.fetch(*_sql.versions(task_ids=task_ids, account_id=account_id))
    return [
        TaskVersion(row["id"], row["version"], row["name"], TaskState(row["state"])) for row in rows
    ]


async def end_queued(
    connection: Connection, details: Mapping[TaskId, str], state: TaskState, reason: EndReason
) -> list[tuple[TaskId, AccountId]]:
    """Ends those that are queued, with a sentence for each; returns them."""
    waiting = await connection.fetch(*_sql.lock_queued(task_ids=list(details))) if details else []
    ids = [TaskId(row["id"]) for row in waiting]
    if not ids:
        return []
    sentences = [details[task_id] for task_id in ids]
    rows = await connection.fetch(
        *_sql.end_queued(task_ids=ids, details=sentences, state=state, reason=reason)
    )
    return [(TaskId(row["id"]), AccountId(row["account_id"])) for row in rows]


async def list_past_deadline(connection: Connection) -> list[TaskId]:
    return [TaskId(row["id"]) for row in await connection.fetch(*_sql.past_deadline())]


def no_such_task(task_id: TaskId) -> NotFound:
    return NotFound(f"You have no task {task_id}.", "`potluck ps` lists your tasks.")


async def _views(connection: Connection, vault: Vault, rows: list[Any]) -> list[TaskRecord]:
    attempts: dict[str, list[AttemptView]] = {}
    # A task that has not changed since its submission has no attempts.
    task_ids = [row["id"] for row in rows if row["version"] > 1]
    most = max(1, min(_NEWEST_ATTEMPTS, _PAGE_ATTEMPTS // max(1, len(task_ids))))
    attempt_rows = (
        await connection.fetch(*_sql.attempts(task_ids=task_ids, limit=most)) if task_ids else []
    )
    for row in attempt_rows:
        attempts.setdefault(row["task_id"], []).append(attempt_view(vault, row))
    contacts = {row["task_id"]: _contact(row) for row in attempt_rows if row["is_held"]}
    return [
        TaskRecord(
            _task_view(row, attempts.get(row["id"], [])),
            row["waits_for"],
            row["is_put_off"],
            contacts.get(row["id"]),
        )
        for row in rows
    ]


def _contact(row: Any) -> NodeContact:
    return NodeContact(row["heartbeat_at"], row["lease_expires_at"], row["read_at"])


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
        requirements=codec.decode_stored(row["requirements"], Requirements),
        limits=codec.decode_stored(row["limits"], Limits),
        version=row["version"],
        phase=_phase(state, attempts),
        exit_code=row["exit_code"],
        reason=_reason(row),
        detail=row["detail"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        charge_micro=row["charge_micro"],
        attempts=attempts,
        attempt_count=attempts[-1].number if attempts else 0,  # numbered without gaps
        after=list(row["after_ids"]),
        not_before=row["not_before"],
        start_before=row["start_before"],
        expected_seconds=row["expected_seconds"],
        items=None if row["items"] is None else _item_counts(row),
        retry_of=row["retry_of"],
        last_lines=attempts[-1].last_lines if state is TaskState.FAILED and attempts else "",
        is_stream=row["is_stream"],
    )


def _item_counts(row: Any) -> ItemCounts:
    return ItemCounts(
        row["items"],
        row["items_pending"],
        row["items_succeeded"],
        row["items_failed"],
        row["items_cancelled"],
    )


def _phase(state: TaskState, attempts: list[AttemptView]) -> str:
    is_preparing = bool(attempts) and attempts[-1].state is AttemptState.PREPARING
    is_assigned = state is TaskState.ASSIGNED  # an array may prepare on one node and run on another
    return AttemptState.PREPARING.value if is_preparing and is_assigned else state.value


def attempt_view(vault: Vault, row: Any) -> AttemptView:
    usage, items = row["usage"], row["items"]
    return AttemptView(
        id=row["id"],
        number=row["number"],
        state=AttemptState(row["state"]),
        node_id=row["node_id"],
        node_name=row["node_name"],
        devices=codec.decode_stored(row["devices"], list[AttemptDevice]),
        assigned_at=row["assigned_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        exit_code=row["exit_code"],
        reason=_reason(row),
        detail=row["detail"],
        usage=None if usage is None else codec.decode_json(usage, Usage),
        charge_micro=row["charge_micro"],
        items=None if items is None else ItemRange(items.lower, items.upper),
        is_on_own_node=row["consumer_id"] == row["provider_id"],
        last_lines=open_lines(vault, ATTEMPT_LINES, row["id"], row["sealed_last_lines"]),
    )


def _reason(row: Any) -> EndReason | None:
    return None if row["reason"] is None else EndReason(row["reason"])


async def traceparents(connection: Connection, task_ids: Collection[TaskId]) -> dict[TaskId, str]:
    """Of those that were submitted with one."""
    rows = await connection.fetch(*_sql.traceparents(task_ids=list(task_ids)))
    return {row["id"]: row["traceparent"] for row in rows}
