"""The states of an array's items: bounded for the whole array, exact for a part of it."""

from collections.abc import Iterable

import pytest

from potluck.decide.arrays.items import ItemFailure
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, ItemRange
from potluck.store.item_ranges import multirange
from potluck.store.tasks import item_failures
from potluck.store.tasks.item_failures import ALL_ITEMS, MOST_BLOCKS
from potluck.wire.consumer import ItemCounts, ItemStates
from tests.server.flow.pool import Pool
from tests.server.flow.schedule.arrays import give

MANY = 1_000_000
BLOCK = MANY // MOST_BLOCKS
SPARSE = tuple(ItemRange(item, item + 1) for item in range(0, MANY, 7))


async def states(pool: Pool, task_id: TaskId, span: ItemRange = ALL_ITEMS) -> ItemStates:
    async with pool.services.database.transaction() as connection:
        found = await item_failures.read_states(connection, task_id, span)
    assert found is not None
    return found


async def set_ranges(pool: Pool, column: str, ranges: Iterable[ItemRange]) -> None:
    await pool.sql(f"UPDATE tasks SET {column} = $1", multirange(ranges))


async def set_running(pool: Pool, ranges: Iterable[ItemRange]) -> None:
    await pool.sql("UPDATE attempts SET remaining = $1", multirange(ranges))


async def set_failed(pool: Pool, task_id: TaskId, ranges: Iterable[ItemRange]) -> None:
    attempt_id = await pool.sql("SELECT id FROM attempts")
    failures = [ItemFailure(r.start, 1, True, EndReason.EXIT_STATUS) for r in ranges]
    async with pool.services.database.transaction() as connection:
        await item_failures.record_failures(
            connection, pool.services.vault, task_id, attempt_id, failures
        )


@pytest.mark.parametrize("state", ["pending", "running", "failed", "cancelled"])
async def test_ranges_of_each_state_are_bounded(pool: Pool, state: str) -> None:
    """However its states alternate, as after many failures all over the array."""
    node, task = await pool.offer(), await pool.submit(items=MANY)
    await give(pool, node, task.id, 0, 1)
    await set_ranges(pool, "pending", ())
    await set_running(pool, ())
    match state:
        case "running":
            await set_running(pool, SPARSE)
        case "failed":
            await set_failed(pool, task.id, SPARSE[::100])
        case _:
            await set_ranges(pool, state, SPARSE)
    whole = await states(pool, task.id)
    ranges: list[ItemRange] = getattr(whole, state)
    assert (whole.total, whole.block_items) == (MANY, BLOCK)
    assert 0 < len(ranges) <= MOST_BLOCKS / 2
    assert all(r.start % BLOCK == 0 and r.end % BLOCK == 0 for r in ranges)
    part = await states(pool, task.id, ItemRange(700, 1400))
    exact = SPARSE[::100] if state == "failed" else SPARSE
    assert part.block_items == 1 and part.total == MANY
    assert getattr(part, state) == [r for r in exact if 700 <= r.start < 1400]


async def test_counts_are_exact_where_ranges_are_rounded(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=MANY)
    await give(pool, node, task.id, 0, 3)
    await set_failed(pool, task.id, [ItemRange(MANY - 1, MANY)])
    await pool.sql("UPDATE tasks SET items_failed = 1, items_succeeded = 5")
    await set_ranges(pool, "pending", [ItemRange(300, 301), ItemRange(700, 702)])
    whole = await states(pool, task.id)
    assert whole.counts == ItemCounts(MANY, 3, 5, 1)
    assert whole.pending == [ItemRange(200, 400), ItemRange(600, 800)]
    assert whole.running == [ItemRange(0, 200)]
    assert whole.failed == [ItemRange(MANY - BLOCK, MANY)]


async def test_a_small_array_is_exact_and_a_span_past_its_end_is_empty(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=MOST_BLOCKS)
    await give(pool, node, task.id, 1, 3)
    whole = await states(pool, task.id)
    assert whole.block_items == 1 and whole.running == [ItemRange(1, 3)]
    assert whole.pending == [ItemRange(0, 1), ItemRange(3, MOST_BLOCKS)]
    assert (await states(pool, task.id, ItemRange(2, 9))).running == [ItemRange(2, 3)]
    behind = await states(pool, task.id, ItemRange(MOST_BLOCKS, MOST_BLOCKS + 5))
    assert (behind.pending, behind.running, behind.block_items) == ([], [], 1)
