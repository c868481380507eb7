"""What the leader keeps in memory: everything in slices, then only changes.

A position is a database snapshot. Changes since then are the rows it did not see, in whatever order
they became visible; so nothing is missed, and reading a row twice does no harm.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from potluck.decide.reservations.duration_estimate import Durations
from potluck.decide.types import AccountShare, WaitingTask
from potluck.model.device import WHOLE_DEVICE_MILLI
from potluck.model.ids import AccountId, NodeId, TaskId
from potluck.model.task import ItemRange
from potluck.store.database import Connection
from potluck.store.scheduler.interning import Interner
from potluck.store.sql_files import load

_sql = load("feed")


class FeedPosition(Struct, frozen=True):
    """Up to where the database has been read, and its clock at that moment."""

    snapshot: str
    now: float


class FeedChanges(Struct, frozen=True):
    """The changes after a position."""

    position: FeedPosition  # that includes them
    tasks: "list[TaskSnapshot]"  # the first page
    behind: "TaskCursor | None"  # where the next page begins, if there is one
    node_ids: list[NodeId]
    account_ids: list[AccountId]
    has_decided: bool  # whether a dependency has ended


class TaskSnapshot(Struct, frozen=True, gc=False):
    """A task: ready, ready later, or not in the queue."""

    id: TaskId
    task: WaitingTask | None  # None when no attempt can be made now, whatever the capacity
    ready_at: float | None  # None: now


class TaskCursor(NamedTuple):
    """The last task of the previous page."""

    changed_by: str
    id: str


class NodeSpeed(Struct, frozen=True):
    """The speed of an array on a node."""

    task_id: TaskId
    node_id: NodeId
    item_seconds: float
    in_vain: int  # failed items there, if none succeeded


class WaitingId(Struct, frozen=True, gc=False):
    id: TaskId
    is_ready: bool
    pending: tuple[ItemRange, ...]


async def read_position(connection: Connection) -> FeedPosition:
    row = await connection.fetchrow(*_sql.position())
    assert row is not None
    return FeedPosition(row["position"], row["now"])


class TaskFeed:
    """Reads tasks; interns their requirements, and learns how long tasks take."""

    def __init__(self, interner: Interner, durations: Durations) -> None:
        self._interner = interner
        self._durations = durations

    async def news(self, connection: Connection, since: FeedPosition, most: int) -> FeedChanges:
        """All changes, with at most `most` tasks in full."""
        rows = await connection.fetch(*_sql.news(snapshot=since.snapshot, limit=most))
        first = rows[0]
        tasks = [] if first["id"] is None else rows
        return FeedChanges(
            FeedPosition(first["position"], first["now"]),
            [self._snapshot(row) for row in tasks],
            _next_cursor(tasks, most),
            first["node_ids"],
            first["account_ids"],
            first["has_decided"],
        )

    async def changed(
        self, connection: Connection, since: FeedPosition, behind: TaskCursor, most: int
    ) -> tuple[list[TaskSnapshot], TaskCursor | None]:
        """A further page, and the cursor of the next one; None after the last."""
        rows = await connection.fetch(
            *_sql.changed_tasks(snapshot=since.snapshot, last_task=behind, limit=most)
        )
        return [self._snapshot(row) for row in rows], _next_cursor(rows, most)

    async def of_ids(self, connection: Connection, ids: Sequence[TaskId]) -> list[TaskSnapshot]:
        return [self._snapshot(row) for row in await connection.fetch(*_sql.tasks(task_ids=ids))]

    async def heads(
        self, connection: Connection, accounts: Sequence[AccountId], most_each: int
    ) -> list[TaskSnapshot]:
        rows = await connection.fetch(*_sql.queue_heads(account_ids=accounts, limit=most_each))
        return [self._snapshot(row) for row in rows]

    async def waiting(self, connection: Connection, behind: str, most: int) -> list[TaskSnapshot]:
        """A page of all waiting tasks, in the order of their ids."""
        rows = await connection.fetch(*_sql.waiting_tasks(after_id=behind, limit=most))
        return [self._snapshot(row) for row in rows]

    def expected_seconds(self, account_id: AccountId, name: str, *, of_items: bool) -> float | None:
        """The recent duration of tasks with that name."""
        return self._durations.expected_seconds(account_id, name, of_items=of_items)

    def _snapshot(self, row: Any) -> TaskSnapshot:
        account_id, name = row["account_id"], row["name"]
        is_array = row["is_array"]
        if row["took_seconds"] is not None:
            self._durations.see(account_id, name, row["took_seconds"], of_items=is_array)
        if row["has_to_wait"] or row["is_overdue"] or not row["is_waiting"]:
            return TaskSnapshot(row["id"], None, None)
        expected_seconds = row["expected_seconds"]
        if row["items_done"]:
            expected_seconds = row["items_seconds"] / row["items_done"]
        elif expected_seconds is None:
            expected_seconds = self._durations.expected_seconds(account_id, name, of_items=is_array)
        pending, failed_on = row["pending"], row["failed_on"]
        task = WaitingTask(
            row["id"],
            account_id,
            self._interner.requirements(row["requirements"]),
            self._interner.limits(row["limits"]),
            row["priority"],
            frozenset(failed_on) if failed_on else _NOWHERE,
            row["submitted_at"],
            expected_seconds,
            _ranges(pending) if pending else (),
            sys.intern(row["kind"]),
        )
        return TaskSnapshot(row["id"], task, row["ready_at"])


def _next_cursor(rows: Sequence[Any], most: int) -> TaskCursor | None:
    return TaskCursor(rows[-1]["changed_by"], rows[-1]["id"]) if len(rows) == most else None


_NOWHERE: frozenset[NodeId] = frozenset()


async def waiting_accounts(connection: Connection) -> list[AccountId]:
    return [row["account_id"] for row in await connection.fetch(*_sql.waiting_accounts())]


async def waiting_ids(
    connection: Connection, behind: str, most: int, seen_by: FeedPosition
) -> list[WaitingId]:
    """A page of waiting tasks that have not changed since the position."""
    rows = await connection.fetch(*_sql.waiting_ids(after_id=behind, limit=most, position=seen_by))
    return [WaitingId(row["id"], row["is_ready"], _ranges(row["pending"])) for row in rows]


async def not_waiting(
    connection: Connection, ids: Sequence[TaskId], seen_by: FeedPosition
) -> list[TaskId]:
    """Those that are not in the queue, and were not at the position."""
    rows = await connection.fetch(*_sql.not_waiting(task_ids=ids, snapshot=seen_by.snapshot))
    return [row["id"] for row in rows]


async def read_node_speeds(connection: Connection, arrays: Sequence[TaskId]) -> list[NodeSpeed]:
    return [NodeSpeed(*row) for row in await connection.fetch(*_sql.paces(task_ids=arrays))]


async def changed_accounts(connection: Connection, since: FeedPosition) -> list[AccountId]:
    rows = await connection.fetch(*_sql.changed_accounts(snapshot=since.snapshot))
    return [row["account_id"] for row in rows]


async def all_accounts(connection: Connection, behind: str, most: int) -> list[AccountId]:
    rows = await connection.fetch(*_sql.all_accounts(after_id=behind, limit=most))
    return [row["id"] for row in rows]


async def read_accounts(
    connection: Connection, ids: Sequence[AccountId], quota_running_devices: int | None
) -> list[AccountShare]:
    """Balances and limits; the default quota applies to accounts without their own."""
    return [
        AccountShare(
            id=row["id"],
            available_micro=row["available_micro"],
            weight=row["weight"],
            most_running_milli=_milli(row["max_running_devices"], quota_running_devices),
            wallet=row["address"].lower(),
        )
        for row in await connection.fetch(*_sql.accounts(account_ids=ids))
    ]


def _milli(own: int | None, default: int | None) -> int | None:
    devices = default if own is None else own
    return None if devices is None else devices * WHOLE_DEVICE_MILLI


def _ranges(pending: Iterable[Any]) -> tuple[ItemRange, ...]:
    return tuple(ItemRange(part.lower, part.upper) for part in pending)
