"""Call streams: arrays of calls that grow while they run.

Items are appended with their inputs, which are sealed, and go to a standing attempt in the same
statement if its guard holds. What is granted but not known to the node is fetched by its poll.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from potluck.decide.arrays.stream_turns import StandingAttempt
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.lease import AttemptState
from potluck.model.task import EndReason, ItemRange, TaskState
from potluck.store.attempts.leases import NodeLeases, read_node_leases
from potluck.store.database import Connection
from potluck.store.item_ranges import item_ranges
from potluck.store.nodes.nodes import Owner
from potluck.store.sealing.vault import Vault
from potluck.store.sql_files import load
from potluck.store.tasks.function_results import VALUE, row_name
from potluck.store.tasks.last_lines import ITEM_LINES, open_lines
from potluck.wire import item_file
from potluck.wire.provider import CallPosition, CancelledItems, GrantedItems, ReturnedItems

_sql = load("streams")
# Where inputs are sealed; the row is the task's id and the first item.
INPUTS = ("item_batches", "sealed_inputs")
MOST_ITEMS = 10_000  # of a stream
MOST_APPENDED = 1_000  # items in one request
# In one answer to a node; each has at most as many bytes as one request.
_MOST_BATCHES = 64
# Bytes that a batch has beside its arguments: its index, and what sealing adds.
_MOST_BATCH_OVERHEAD = 256


class StreamTimes(Struct, frozen=True):
    """How a stream grows, and how far its nodes are ahead."""

    idle_seconds: float
    longest_seconds: float
    ahead_seconds: float
    funded_seconds: float  # of work that a hold must cover before an attempt gets more
    most_items: int = MOST_ITEMS


class NewItems(Struct, frozen=True):
    """Items to append, with their inputs as an item file."""

    start: int
    count: int
    digest: bytes
    inputs: bytes


class Appended(Struct, frozen=True):
    """`outcome` is `appended` or `same`; otherwise why nothing was appended."""

    outcome: str
    items: int  # of the stream
    has_pending: bool
    node_ids: tuple[NodeId, ...]  # that have news


class AcceptedItems(Struct, frozen=True):
    has_pending: bool
    node_ids: tuple[NodeId, ...]


class NodeItems(Struct, frozen=True):
    """What a node does not know yet about its attempts on streams."""

    items: list[GrantedItems]
    released: list[AttemptId]
    cancelled: list[CancelledItems]


class StreamPoll(Struct, frozen=True):
    """What a poll of a node finds. `held` is None if the caller has no rights to the node."""

    items: NodeItems
    held: NodeLeases | None = None
    is_current: bool = False  # the node was seen polling just now: there is nothing to write


NO_ITEMS = NodeItems([], [], [])


class LockedStream(Struct, frozen=True):
    state: TaskState
    is_open: bool
    pending: tuple[ItemRange, ...]


async def open_stream(
    connection: Connection, vault: Vault, task_id: TaskId, first: NewItems, times: StreamTimes
) -> None:
    """Makes a stream of a task that was just stored, with its first items."""
    sealed = vault.seal(*INPUTS, row_name(task_id, first.start), first.inputs)
    await connection.execute(*_sql.open(task_id=task_id, idle_seconds=times.idle_seconds))
    await connection.execute(
        *_sql.insert_batch(
            task_id=task_id, count=first.count, digest=first.digest, sealed_inputs=sealed
        )
    )


async def append(
    connection: Connection,
    vault: Vault,
    account_id: AccountId,
    task_id: TaskId,
    new: NewItems,
    times: StreamTimes,
) -> Appended:
    sealed = vault.seal(*INPUTS, row_name(task_id, new.start), new.inputs)
    row = await connection.fetchrow(
        *_sql.append(
            task_id=task_id,
            account_id=account_id,
            start=new.start,
            count=new.count,
            digest=new.digest,
            sealed_inputs=sealed,
            times=times,
        )
    )
    return Appended(
        row["outcome"],
        row["item_count"] or 0,
        bool(row["has_pending"]),
        tuple(row["node_ids"] or ()),
    )


async def accept(
    connection: Connection,
    vault: Vault,
    attempt_id: AttemptId,
    task_id: TaskId,
    node_id: NodeId,
    runs: Sequence[ReturnedItems],
    times: StreamTimes,
) -> AcceptedItems | None:
    """None if it is not the simple case: nothing has changed then."""
    row = await connection.fetchrow(
        *_sql.accept(
            attempt_id=attempt_id,
            node_id=node_id,
            runs=runs,
            run_seconds=sum(run.run_seconds for run in runs),
            sealed_values=[
                vault.seal(*VALUE, row_name(task_id, run.start), run.values.data) for run in runs
            ],
            sizes=[len(run.values.data) for run in runs],
            times=times,
        )
    )
    if row["of_task"] is None:
        return None
    assert row["of_task"] == task_id, "values are sealed for their task"
    return AcceptedItems(row["has_pending"], tuple(row["node_ids"]))


async def refill(connection: Connection, task_id: TaskId, times: StreamTimes) -> tuple[NodeId, ...]:
    """Grants what waits to standing attempts; returns the nodes that have news."""
    return tuple(await connection.fetchval(*_sql.refill(task_id=task_id, times=times)))


async def fetch(
    connection: Connection,
    vault: Vault,
    node_id: NodeId,
    owner: Owner,
    positions: Sequence[CallPosition],
    held: Sequence[AttemptId],
    precision_seconds: float,
) -> StreamPoll:
    """New items of these attempts of the node, and what has become of those that it has; with all
    its leases."""
    rows = await connection.fetch(
        *_sql.fetch(
            node_id=node_id,
            owner=owner,
            positions=positions,
            held_ids=held,
            min_heartbeat_age=timedelta(seconds=precision_seconds),
            limit=_MOST_BATCHES,
            most_count=MOST_APPENDED,
        )
    )
    if not rows:
        return StreamPoll(NO_ITEMS)
    opened: dict[tuple[str, int], list[bytes]] = {}
    with_inputs = [row for row in rows if row["batch_start"] is not None]
    items = [_granted(vault, row, opened) for row in with_inputs]
    released = sorted({row["id"] for row in rows if row["is_released"]})
    gone = {row["id"]: row["cancelled"] for row in rows if row["cancelled"]}
    cancelled = [CancelledItems(id_, [*item_ranges(items)]) for id_, items in gone.items()]
    held_now = read_node_leases(rows[0])
    return StreamPoll(NodeItems(items, released, cancelled), held_now, rows[0]["is_current"])


def _granted(vault: Vault, row: Any, opened: dict[tuple[str, int], list[bytes]]) -> GrantedItems:
    """The part of a batch that was granted."""
    task_id, first = row["task_id"], row["batch_start"]
    if (task_id, first) not in opened:
        inputs = vault.open(*INPUTS, row_name(task_id, first), row["sealed_inputs"])
        opened[task_id, first] = item_file.unpack(inputs, MOST_APPENDED)
    start, end = max(row["start"], first), min(row["end"], row["batch_end"])
    values = opened[task_id, first][start - first : end - first]
    return GrantedItems(row["id"], start, end, item_file.pack(values))


async def lock(
    connection: Connection, task_id: TaskId, account_id: AccountId
) -> LockedStream | None:
    row = await connection.fetchrow(*_sql.lock(task_id=task_id, account_id=account_id))
    if row is None:
        return None
    return LockedStream(TaskState(row["state"]), row["is_open"], item_ranges(row["pending"]))


async def lock_attempts(connection: Connection, task_id: TaskId) -> None:
    """Locks a stream and its live attempts, before several statements about it."""
    await connection.execute(*_sql.lock_attempts(task_id=task_id))


async def close(connection: Connection, task_id: TaskId) -> list[NodeId]:
    """Closes a locked stream, and releases its attempts; returns their nodes."""
    await connection.execute(*_sql.close(task_id=task_id))
    rows = await connection.fetch(*_sql.release_task(task_id=task_id))
    return [NodeId(row["node_id"]) for row in rows]


async def list_overdue(
    connection: Connection, longest_seconds: float
) -> list[tuple[TaskId, AccountId]]:
    """Open streams that should be closed."""
    rows = await connection.fetch(*_sql.overdue(longest_seconds=longest_seconds))
    return [(TaskId(row["id"]), AccountId(row["account_id"])) for row in rows]


async def list_unfinished(connection: Connection) -> list[tuple[TaskId, AccountId]]:
    """Closed streams that have nothing left to do, and have not ended."""
    rows = await connection.fetch(*_sql.unfinished())
    return [(TaskId(row["id"]), AccountId(row["account_id"])) for row in rows]


async def list_standing(connection: Connection) -> list[StandingAttempt]:
    """All live attempts on streams."""
    return [StandingAttempt(*row) for row in await connection.fetch(*_sql.standing())]


async def release(connection: Connection, attempt_ids: Sequence[AttemptId]) -> None:
    """They get no more items, and end once theirs are done."""
    await connection.execute(*_sql.release(attempt_ids=attempt_ids))


class CallState(Struct, frozen=True):
    """Where one item of an array is, in the words of a task."""

    state: TaskState
    reason: EndReason | None = None
    detail: str = ""
    exit_code: int | None = None
    last_lines: str = ""
    attempt_id: AttemptId | None = None  # that has it to do
    node_id: NodeId | None = None  # of that attempt
    is_next: bool = False  # it is the first of them: it runs, or will next


async def find_call(
    connection: Connection, vault: Vault, task_id: TaskId, item: int
) -> CallState | None:
    """None if there is no such item. The caller checks whose task it is."""
    row = await connection.fetchrow(*_sql.call(task_id=task_id, item=item))
    if row is None:
        return None
    if row["is_cancelled"]:
        return CallState(TaskState.CANCELLED, EndReason.CANCELLED)
    if row["reason"] is not None:
        lines = open_lines(vault, ITEM_LINES, row_name(task_id, item), row["sealed_last_lines"])
        reason = EndReason(row["reason"])
        return CallState(TaskState.FAILED, reason, row["detail"], row["exit_code"], lines)
    if row["attempt_id"] is not None:
        # The node has the ones after it for later.
        is_running = row["is_next"] and row["attempt_state"] == AttemptState.RUNNING
        state = TaskState.RUNNING if is_running else TaskState.ASSIGNED
        holder = row["attempt_id"], row["node_id"]
        return CallState(state, None, "", None, "", *holder, is_next=row["is_next"])
    if row["is_pending"]:
        task_state = TaskState(row["task_state"])
        return CallState(task_state if task_state.is_final else TaskState.QUEUED)
    return CallState(TaskState.SUCCEEDED, EndReason.COMPLETED)


async def cancel_item(connection: Connection, task_id: TaskId, item: int) -> None:
    """Of a locked stream; an attempt that has it to do does not have it any more, and its node
    learns this from its poll."""
    await connection.execute(*_sql.cancel_item(task_id=task_id, item=item))


async def read_all_inputs(
    connection: Connection, vault: Vault, task_id: TaskId, most_bytes: int
) -> list[bytes]:
    """The arguments of all calls; nothing if they are deleted, or have far more bytes than this."""
    most_sealed_bytes = most_bytes + MOST_ITEMS * _MOST_BATCH_OVERHEAD
    rows = await connection.fetch(*_sql.batches(task_id=task_id, most_bytes=most_sealed_bytes))
    return [
        arguments
        for row in rows
        for arguments in item_file.unpack(
            vault.open(*INPUTS, row_name(task_id, row["start"]), row["sealed_inputs"]),
            MOST_APPENDED,
        )
    ]


async def read_inputs(
    connection: Connection, vault: Vault, task_id: TaskId, item: int
) -> bytes | None:
    """The arguments of one call; None if they are not stored."""
    row = await connection.fetchrow(*_sql.batch_of_item(task_id=task_id, item=item))
    if row is None or row["start"] > item:
        return None
    inputs = vault.open(*INPUTS, row_name(task_id, row["start"]), row["sealed_inputs"])
    first: int = row["start"]
    return item_file.unpack(inputs, MOST_APPENDED)[item - first]
