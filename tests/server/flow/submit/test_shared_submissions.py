"""Single submissions that arrive together: one transaction, and an answer for each."""

import asyncio

import pytest
from msgspec.structs import replace

from potluck.model.error import Conflict, InvalidInput
from potluck.model.ids import TaskId
from potluck.model.task import TaskState
from potluck.server.flow.submit import shared_submissions
from potluck.wire.consumer import TaskView
from tests.server.flow.counted_requests import Statements, statements
from tests.server.flow.pool import Pool, request

__all__ = ["statements"]


def submit(
    pool: Pool, name: str, key: str | None = None, **changes: object
) -> asyncio.Task[TaskView]:
    task_request = replace(request(), name=name, **changes)
    return asyncio.create_task(
        shared_submissions.submit(pool.services, pool.alice, task_request, key)
    )


async def while_the_first_waits(pool: Pool, statements: Statements) -> "asyncio.Task[TaskView]":
    """A submission that is under way, so that others gather behind it."""
    statements.take()
    first = submit(pool, "first")
    while not statements.sent:
        await asyncio.sleep(0)
    statements.take()
    return first


async def test_submissions_during_a_commit_share_the_next_one(
    statements: Statements, pool: Pool
) -> None:
    await pool.submit()  # prepares what every connection sends first
    first = await while_the_first_waits(pool, statements)
    others = [submit(pool, f"other {number}") for number in range(20)]
    await first
    statements.take()
    views = await asyncio.gather(*others)
    assert [view.name for view in views] == [f"other {number}" for number in range(20)]
    assert {view.state for view in views} == {TaskState.QUEUED}
    inserts = [sent for sent in statements.take() if "INSERT INTO tasks" in sent]
    assert len(inserts) == 1
    await pool.check()


async def test_a_failing_submission_is_answered_alone_and_the_others_are_stored(
    statements: Statements, pool: Pool
) -> None:
    earlier = await submit(pool, "earlier", "key")
    first = await while_the_first_waits(pool, statements)
    good, repeated = submit(pool, "good"), submit(pool, "earlier", "key")
    other, twin = submit(pool, "other", "key"), submit(pool, "twin", "new")
    bad, its_twin = submit(pool, "bad", after=(TaskId(NO_TASK),)), submit(pool, "twin", "new")
    await first
    assert (await good).name == "good"
    assert (await repeated).id == earlier.id
    with pytest.raises(Conflict, match="another task"):
        await other
    with pytest.raises(InvalidInput):
        await bad
    assert (await twin).id == (await its_twin).id
    await pool.check()


async def test_a_submission_without_a_key_is_stored_once_beside_repeated_keys(
    statements: Statements, pool: Pool
) -> None:
    unlimited = replace(pool.services.settings, quota_queued_tasks=None)
    pool.services = replace(pool.services, settings=unlimited)
    first = await while_the_first_waits(pool, statements)
    good, twin, its_twin = (
        submit(pool, "good"),
        submit(pool, "twin", "new"),
        submit(pool, "twin", "new"),
    )
    await first
    assert (await good).name == "good"
    assert (await twin).id == (await its_twin).id
    await pool.check()


async def test_a_cancelled_caller_does_not_affect_the_others(
    statements: Statements, pool: Pool
) -> None:
    first = await while_the_first_waits(pool, statements)
    cancelled_caller, good = submit(pool, "gone"), submit(pool, "good")
    await asyncio.sleep(0)
    first.cancel()
    cancelled_caller.cancel()
    assert (await good).name == "good"


NO_TASK = "task_" + "0" * 26
