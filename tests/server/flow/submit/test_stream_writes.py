"""Appends and reports of a stream that arrive together: one transaction, and an answer for each."""

import asyncio
from collections.abc import Awaitable

import pytest

from potluck.model.error import Conflict
from potluck.model.ids import TaskId
from potluck.model.task import ItemRange
from potluck.server.flow.settle import calls
from potluck.server.flow.submit.stream_writes import write_stream
from potluck.store.database import Connection
from tests.server.flow.counted_requests import Statements, statements
from tests.server.flow.pool import Pool
from tests.server.flow.submit.test_stream_locks import two_attempts
from tests.server.flow.submit.test_streams import add, returned
from tests.server.flow.test_lock_order import until_it_waits

__all__ = ["statements"]


async def behind_a_write(
    pool: Pool, statements: Statements, task_id: TaskId, *writes: Awaitable[object]
) -> list[object]:
    """Runs them behind another write about the stream; statements count from its end on."""
    began, may_end = asyncio.Event(), asyncio.Event()

    async def first(_: Connection) -> None:
        began.set()
        await may_end.wait()

    running = asyncio.ensure_future(write_stream(pool.services, pool.alice, task_id, first))
    await began.wait()
    waiting = [asyncio.ensure_future(write) for write in writes]
    while len(pool.services.stream_writes._waiting[pool.alice, task_id]) < len(writes):
        await asyncio.sleep(0)
    statements.take()
    may_end.set()
    await running
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_an_append_and_reports_of_two_attempts_share_a_commit(
    statements: Statements, pool: Pool
) -> None:
    node_id, task_id, first, second = await two_attempts(pool)
    answers = await behind_a_write(
        pool,
        statements,
        task_id,
        pool.report(node_id, returned(first, 1, 2)),
        pool.report(node_id, returned(second, 3, 4)),
        add(pool, task_id, 5, b"5"),
    )
    assert answers == [["accepted"], ["accepted"], 6]
    sent = statements.take()
    writes = [query for query in sent if "accept_items(" in query or "append_items(" in query]
    assert len(writes) == 3 and sum(query.startswith("COMMIT") for query in sent) == 1
    await pool.check()


async def test_a_write_that_fails_is_answered_alone_and_the_others_are_stored(
    statements: Statements, pool: Pool
) -> None:
    node_id, task_id, first, _ = await two_attempts(pool)

    async def fail(connection: Connection) -> None:
        await connection.execute("SELECT 1 / 0")

    accepted, gap, failure = await behind_a_write(
        pool,
        statements,
        task_id,
        pool.report(node_id, returned(first, 1, 2)),
        add(pool, task_id, 9, b"too far"),
        write_stream(pool.services, pool.alice, task_id, fail),
    )
    assert accepted == ["accepted"]
    assert isinstance(gap, Conflict) and "only 5 items" in gap.detail
    assert "division by zero" in str(failure)
    view = await pool.task(task_id)
    assert view.items is not None and view.items.succeeded == 3
    await pool.check()


async def test_writes_together_lock_all_attempts_in_order_before_the_first_statement(
    statements: Statements, pool: Pool
) -> None:
    node_id, task_id, first, second = await two_attempts(pool)
    await calls.cancel(pool.services, pool.alice, task_id, 4)  # so that nothing waits
    row = "SELECT FROM attempts WHERE id = $1 FOR UPDATE"
    async with pool.services.database.transaction() as connection:
        await connection.execute(row, first.attempt_id)
        running = asyncio.ensure_future(
            behind_a_write(
                pool,
                statements,
                task_id,
                # Alone it locks the second attempt only; the append then locks the first.
                pool.report(node_id, returned(second, 3, 4)),
                add(pool, task_id, 5, b"5"),
            )
        )
        await until_it_waits(pool, running)
        await connection.execute(f"{row} NOWAIT", second.attempt_id)
    assert await running == [["accepted"], 6]


@pytest.mark.parametrize("other", ["another account", "another stream"])
async def test_writes_of_others_wait_for_nothing(pool: Pool, other: str) -> None:
    _, task_id, first, _ = await two_attempts(pool)
    row = "SELECT FROM attempts WHERE id = $1 FOR UPDATE"
    assert first.items == [ItemRange(0, 1)]
    async with pool.services.database.transaction() as connection:
        await connection.execute(row, first.attempt_id)
        running = asyncio.ensure_future(add(pool, task_id, 5, b"5"))
        await until_it_waits(pool, running)

        async def answer(_: Connection) -> str:
            return "at once"

        account_id = pool.bob if other == "another account" else pool.alice
        stream_id = task_id if other == "another account" else TaskId("task_" + "0" * 26)
        async with asyncio.timeout(30):
            assert await write_stream(pool.services, account_id, stream_id, answer) == "at once"
    await running
