"""Items of arrays: outcomes go into the two rows that count them; failures have their own."""

from collections.abc import Sequence

from msgspec import Struct

from potluck.decide.arrays.items import Accepted, HeldRange, ItemFailure
from potluck.model.ids import AccountId, AttemptId, NodeId, TaskId
from potluck.model.task import EndReason, ItemRange
from potluck.model.terms import TaskKind
from potluck.store.database import Connection
from potluck.store.named import load
from potluck.store.ranges import item_ranges, multirange
from potluck.wire.consumer import FailedItem

_sql = load("items")


class LockedRange(Struct, frozen=True):
    """A live range under lock, and its task with it."""

    task_id: TaskId
    consumer_id: AccountId
    kind: TaskKind
    held: HeldRange


async def lock_range(
    connection: Connection, attempt_id: AttemptId, node_id: NodeId
) -> LockedRange | None:
    row = await connection.fetchrow(_sql.lock_range, attempt_id, node_id)
    if row is None:
        return None
    held = HeldRange(
        item_ranges(row["remaining"]),
        row["max_attempts"],
        row["pending_pieces"],
        row["most_seconds"],
    )
    return LockedRange(row["task_id"], row["consumer_id"], TaskKind(row["kind"]), held)


async def failures(connection: Connection, task_id: TaskId, items: Sequence[int]) -> dict[int, int]:
    """How often each of these has failed, as far as it has."""
    rows = await connection.fetch(_sql.failures, task_id, items) if items else []
    return {row["item"]: row["failures"] for row in rows}


async def accept(
    connection: Connection, task_id: TaskId, attempt_id: AttemptId, accepted: Accepted
) -> None:
    """What was accepted counts; the caller holds the lock on the range and its task."""
    await connection.execute(
        _sql.accept,
        task_id,
        attempt_id,
        multirange(accepted.done),
        _count(accepted.done),
        accepted.run_seconds,
        accepted.succeeded,
        multirange(accepted.again),
        sum(failure.is_final for failure in accepted.failures),
    )
    await fail(connection, task_id, attempt_id, accepted.failures)


def _count(ranges: Sequence[ItemRange]) -> int:
    return sum(len(each) for each in ranges)


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
