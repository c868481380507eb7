"""Attempts and their leases: assigned, fetched, renewed, ended.

Every function is fenced: it names the attempt, and changes nothing after its end.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from msgspec import Struct
from msgspec.structs import replace

from potluck.decide.arrays.items import ArrayPart, HeldRange
from potluck.decide.charges import Billable
from potluck.decide.failure_record import (
    NEWEST_ENDS,
    NEWEST_OF_OWNER,
    NEWEST_TASKS,
    FailureRecord,
    has_costly_outliers,
    is_doubted,
)
from potluck.decide.locked_attempt import LockedAttempt
from potluck.decide.retry_policy import History
from potluck.model.blob import BlobRef
from potluck.model.error import InvalidInput, Unopenable
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, Limits, Requirements, TaskState
from potluck.model.task_spec import TaskSpec
from potluck.model.terms import TaskKind
from potluck.store.attempts.leases import NodeLeases, read_node_leases
from potluck.store.database import Connection
from potluck.store.item_ranges import item_ranges
from potluck.store.nodes.nodes import Owner
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.tasks import SECRETS, SPEC
from potluck.wire import codec
from potluck.wire.codec import decode_spec
from potluck.wire.provider import GrantedDevice

log = structlog.get_logger()

_sql = load("attempts")

# Limits the specs per response; the rest follows with the next.
_MAX_RESPONSE_BYTES = 4 * 2**20


class FetchedAttempt(Struct, frozen=True):
    id: AttemptId
    task_id: TaskId
    consumer_id: AccountId
    wallet: str
    spec: TaskSpec
    requirements: Requirements
    limits: Limits
    devices: list[GrantedDevice]
    items: list[ItemRange]  # for an array: what is left to do
    items_total: int | None
    is_reclaimable: bool
    secrets: dict[str, str]
    checkpoint: BlobRef | None
    traceparent: str | None
    price_micro_per_hour: int
    line: AttemptId | None  # if it has no share yet
    is_stream: bool


class Fetched(Struct, frozen=True):
    """The granted attempts, and those whose task cannot be decrypted any more."""

    attempts: list[FetchedAttempt]
    unreadable: list[AttemptId]


class LogState(Struct, frozen=True):
    """How much of a live attempt's log is stored."""

    task_id: TaskId
    pieces: int
    bytes: int
    bytes_limit: int
    now: datetime


class AttemptLog(Struct, frozen=True):
    attempt_id: AttemptId
    pieces: int
    is_live: bool
    is_cleared: bool  # its log may have existed, and was deleted


async def fetch(
    connection: Connection,
    vault: Vault,
    node_id: NodeId,
    owner: Owner,
    held: Sequence[AttemptId],
    lease_seconds: float,
    most: int,
) -> tuple[NodeLeases, Fetched]:
    """What the node has, and its grants that it does not list: their lease starts now."""
    lease = timedelta(seconds=lease_seconds)
    rows = await connection.fetch(
        *_sql.fetch(
            node_id=node_id,
            owner=owner,
            held_ids=held,
            lease_duration=lease,
            limit=most,
            max_bytes=_MAX_RESPONSE_BYTES,
        )
    )
    node_leases = read_node_leases(rows[0])
    rows = [row for row in rows if row["id"] is not None]
    opened = {row["id"]: _open(vault, row) for row in rows}
    granted = [
        FetchedAttempt(
            row["id"],
            row["task_id"],
            row["consumer_id"],
            row["wallet"],
            content.spec,
            _reserved(row),
            codec.decode_stored(row["limits"], Limits),
            codec.decode_stored(row["devices"], list[GrantedDevice]),
            [ItemRange(part.lower, part.upper) for part in row["remaining"]],
            row["items_total"],
            row["is_reclaimable"],
            content.secrets,
            None if row["checkpoint"] is None else codec.decode_stored(row["checkpoint"], BlobRef),
            row["traceparent"],
            row["price_micro_per_hour"],
            row["line"],
            row["is_stream"],
        )
        for row in rows
        if (content := opened[row["id"]]) is not None
    ]
    unreadable = [attempt_id for attempt_id, content in opened.items() if content is None]
    return node_leases, Fetched(granted, unreadable)


class _TaskContent(Struct, frozen=True):
    spec: TaskSpec
    secrets: dict[str, str]


def _reserved(row: Any) -> Requirements:
    """With what was reserved for the attempt, which may be more than its task requested."""
    requirements = codec.decode_stored(row["requirements"], Requirements)
    amounts = {name: row[name] for name in ("cores", "memory_bytes", "disk_bytes")}
    return replace(requirements, **amounts)


def _open(vault: Vault, row: Any) -> _TaskContent | None:
    """None if it cannot be decrypted: one task must not block the others."""
    task_id, sealed_secrets = row["task_id"], row["sealed_secrets"]
    try:
        spec = decode_spec(vault.open(*SPEC, task_id, row["sealed_spec"]))
        if sealed_secrets is None:
            return _TaskContent(spec, {})
        secrets = vault.open(*SECRETS, task_id, sealed_secrets)
        return _TaskContent(spec, codec.decode_json(secrets, dict[str, str]))
    except (Unopenable, InvalidInput) as error:
        log.error("a task cannot be decrypted", task_id=row["task_id"], detail=error.detail)
        return None


async def live_of_node(
    connection: Connection, node_id: NodeId, account_id: AccountId
) -> set[AttemptId]:
    rows = await connection.fetch(*_sql.live_of_node(node_id=node_id, account_id=account_id))
    return {AttemptId(row["id"]) for row in rows}


async def list_unfetched(connection: Connection, node_id: NodeId) -> list[AttemptId]:
    """Unfetched attempts of a node on devices that no longer take new work."""
    rows = await connection.fetch(*_sql.unfetched(node_id=node_id))
    return [AttemptId(row["id"]) for row in rows]


async def lock_task(connection: Connection, attempt_id: AttemptId) -> None:
    """Before the attempt, as in the common lock order."""
    await connection.execute(*_sql.lock_task_of(attempt_id=attempt_id))


async def lock_for_end(connection: Connection, attempt_id: AttemptId) -> LockedAttempt | None:
    """Locks the attempt and its task."""
    locked = await lock_many_for_end(connection, [attempt_id])
    return locked[0] if locked else None


async def lock_many_for_end(
    connection: Connection, attempt_ids: Sequence[AttemptId]
) -> list[LockedAttempt]:
    """Locks the existing ones and their tasks."""
    rows = await connection.fetch(*_sql.lock_for_end(attempt_ids=attempt_ids))
    return [_locked_attempt(row) for row in rows]


async def lock_live_for_end(connection: Connection, task_id: TaskId) -> list[LockedAttempt]:
    """Locks all live attempts of a locked task, in the order of their ids."""
    live = [row["id"] for row in await connection.fetch(*_sql.live_of_task(task_id=task_id))]
    return await lock_many_for_end(connection, live)


def _locked_attempt(row: Any) -> LockedAttempt:
    is_range = row["is_range"]
    return LockedAttempt(
        id=row["id"],
        task_id=row["task_id"],
        node_id=row["node_id"],
        state=AttemptState(row["state"]),
        reason=None if row["reason"] is None else EndReason(row["reason"]),
        task_state=TaskState(row["task_state"]),
        kind=TaskKind(row["kind"]),
        billable=_billable(row),
        adoption=row["adoptions"],
        history=History(
            failures=row["failures"],
            losses=row["item_losses"] if is_range else row["losses"],
            nodes_lost=row["other_nodes_lost"],
            max_attempts=row["max_attempts"],
            uncounted_losses=row["uncounted_losses"],
        ),
        array=_array(row) if is_range else None,
        held=_held(row) if is_range else None,
        report_hash=row["report_hash"],
        is_expired=row["is_expired"],
        was_fetched=row["was_fetched"],
        is_reclaimable=row["is_reclaimable"],
        is_available=row["is_available"],
        has_output=row["has_output"],
        is_unfunded=row["is_unfunded"],
        was_in_contact=row["was_in_contact"],
        has_failed_before=row["has_failed_before"],
        taken_at=row["taken_at"],
        now=row["now"],
        has_share=row["has_share"],
        has_heirs=row["has_heirs"],
    )


def _billable(row: Any) -> Billable:
    return Billable(
        consumer_id=row["consumer_id"],
        provider_id=row["provider_id"],
        price_micro_per_hour=row["price_micro_per_hour"],
        hold_micro=row["hold_micro"],
        run_seconds_limit=row["run_seconds_limit"],
        # Without a share nothing is charged yet.
        started_at=row["started_at"] if row["has_share"] else None,
        reported_run_seconds=None,
        items_seconds=row["items_seconds"],
        charged_micro=row["charge_micro"],
        held_back_micro=row["held_back_micro"],
        checkpoint_at=row["checkpoint_at"],
        slices=row["slices"],
        fee_basis_points=row["fee_basis_points"],
        is_standing=row["is_stream"],
    )


def _array(row: Any) -> ArrayPart:
    return ArrayPart(
        remaining=item_ranges(row["remaining"]),
        has_pending=row["has_pending"],
        has_outcomes=row["items_succeeded"] + row["items_failed"] > 0,
        has_others=row["has_others"],
        items=row["items"],
        items_failed=row["items_failed"],
        allow_failures=row["allow_failures"],
        is_open=row["is_open"],
        is_stream=row["is_stream"],
    )


def _held(row: Any) -> HeldRange:
    return HeldRange(
        item_ranges(row["remaining"]),
        row["max_attempts"],
        row["pending_pieces"],
        row["most_seconds"] - row["idle_seconds"],
        item_ranges(row["cancelled"]),
    )


async def failure_records(
    connection: Connection, attempt_ids: Sequence[AttemptId]
) -> dict[AttemptId, FailureRecord]:
    """What speaks for or against attempts that fail.

    Until the end of the transaction no other attempt of their accounts is judged.
    """
    await connection.execute(*_sql.lock_spared(attempt_ids=attempt_ids))
    rows = await connection.fetch(
        *_sql.failure_records(
            attempt_ids=attempt_ids,
            ends_limit=NEWEST_ENDS,
            tasks_limit=NEWEST_TASKS,
            attempts_limit=NEWEST_OF_OWNER,
        )
    )
    return {row["id"]: _failure_record(row) for row in rows}


def _failure_record(row: Any) -> FailureRecord:
    node_ends = (row["finished_attempts"], row["lost_attempts"], row["outlier_attempts"])
    return FailureRecord(
        row["spared"],
        row["ended"],
        row["succeeded"],
        is_doubted(*node_ends) or has_costly_outliers(row["run_seconds"], row["outlier_seconds"]),
        row["spared_micro"],
        row["paid_micro"],
        row["usual_seconds"],
        row["refuting_seconds"],
        row["run_seconds"],
    )


async def log_state(
    connection: Connection, attempt_id: AttemptId, node_id: NodeId
) -> LogState | None:
    row = await connection.fetchrow(*_sql.log_state(attempt_id=attempt_id, node_id=node_id))
    if row is None:
        return None
    return LogState(
        row["task_id"], row["log_pieces"], row["log_bytes"], row["log_bytes_limit"], row["now"]
    )


async def append_log(
    connection: Connection, attempt_id: AttemptId, offset: int, pieces: int, size_bytes: int
) -> bool:
    """Counts the pieces; False if they were counted already, or the attempt has ended."""
    accepted_id = await connection.fetchval(
        *_sql.append_log(attempt_id=attempt_id, offset=offset, pieces=pieces, size_bytes=size_bytes)
    )
    return accepted_id is not None


async def log_of_task(
    connection: Connection, task_id: TaskId, account_id: AccountId, number: int | None
) -> AttemptLog | None:
    row = await connection.fetchrow(
        *_sql.log_of_task(task_id=task_id, account_id=account_id, number=number)
    )
    if row is None:
        return None
    return AttemptLog(row["id"], row["log_pieces"], row["is_live"], row["is_cleared"])
