"""What enters the queue: all that a request says is kept, times count, and quotas are exact."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.error import QuotaExceeded
from potluck.model.task import TaskState
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import submit
from tests.server.flow.pool import Pool, request

pytestmark = pytest.mark.every_postgres


async def test_every_given_field_is_shown(pool: Pool) -> None:
    fields: dict[str, Any] = {
        "priority": 3,
        "expected_seconds": 5.0,
        "delay_seconds": 10.0,
        "start_within_seconds": 20.0,
        "items": 7,
        "allow_failures": 2,
    }
    task = await pool.submit(labels=("region=eu",), device_milli=250, **fields)
    assert task.not_before is not None and task.start_before is not None
    assert (task.start_before - task.not_before).total_seconds() == 10.0
    assert (task.priority, task.expected_seconds) == (3, 5.0)
    assert (task.requirements.labels, task.requirements.device_milli) == (("region=eu",), 250)
    allowed_failures = await pool.sql("SELECT allow_failures FROM tasks WHERE id = $1", task.id)
    assert allowed_failures == 2


async def test_a_delayed_task_says_until_when(pool: Pool) -> None:
    task = await pool.submit(delay_seconds=3600.0)
    assert task.waiting is not None and task.not_before is not None
    assert task.waiting.code == "delayed"
    assert f"{task.not_before:%H:%M:%S}" in task.waiting.sentence
    assert (await cancel.cancel(pool.services, pool.alice, task.id)).state is TaskState.CANCELLED


async def test_a_delay_that_is_over_is_no_reason(pool: Pool) -> None:
    task = await pool.submit(delay_seconds=0.001)
    await asyncio.sleep(0.002)
    assert (await pool.task(task.id)).waiting is None


async def test_the_quota_of_queued_tasks_is_exact(pool: Pool) -> None:
    """Also when twenty come at once, for the one account that has a limit of its own."""
    await pool.sql("UPDATE accounts SET max_queued_tasks = 5 WHERE id = $1", pool.alice)
    first = await pool.submit(key="first", items=100)
    outcomes = await asyncio.gather(*(pool.submit() for _ in range(20)), return_exceptions=True)
    refusals = [outcome for outcome in outcomes if isinstance(outcome, QuotaExceeded)]
    assert len(refusals) == 16
    assert "5 queued tasks" in refusals[0].detail and refusals[0].hint
    assert (await pool.submit(key="first", items=100)).id == first.id, "it was let in before"
    await cancel.cancel(pool.services, pool.alice, first.id)
    await pool.submit()
    for _ in range(7):
        await submit.submit(pool.services, pool.bob, request(), None)


async def test_the_same_submission_twice_at_once_takes_the_last_place_once(pool: Pool) -> None:
    settings = replace(pool.services.settings, quota_queued_tasks=1)
    pool.services = replace(pool.services, settings=settings)
    twins = await asyncio.gather(*(pool.submit(key="k") for _ in range(8)))
    assert len({twin.id for twin in twins}) == 1


async def test_the_quota_of_an_account_takes_precedence_over_the_servers(pool: Pool) -> None:
    settings = replace(pool.services.settings, quota_queued_tasks=1)
    parts = replace(pool.services, settings=settings)
    await submit.submit(parts, pool.alice, request(), None)
    with pytest.raises(QuotaExceeded):
        await submit.submit(parts, pool.alice, request(), None)
    await pool.sql("UPDATE accounts SET max_queued_tasks = 2 WHERE id = $1", pool.alice)
    await submit.submit(parts, pool.alice, request(), None)
    await pool.sql("UPDATE accounts SET max_queued_tasks = 0 WHERE id = $1", pool.alice)
    with pytest.raises(QuotaExceeded, match="may not submit"):
        await submit.submit(parts, pool.alice, request(), None)


async def test_the_priority_of_an_accounts_tasks_has_its_limit(pool: Pool) -> None:
    settings = replace(pool.services.settings, quota_priority=0)
    parts = replace(pool.services, settings=settings)
    await pool.submit(priority=100)
    await submit.submit(parts, pool.alice, request(priority=0), None)
    with pytest.raises(QuotaExceeded, match="priority 1; the account's tasks may have at most 0"):
        await submit.submit(parts, pool.alice, request(priority=1), None)
    await pool.sql("UPDATE accounts SET max_priority = 10 WHERE id = $1", pool.alice)
    await submit.submit(parts, pool.alice, request(priority=10), None)
    with pytest.raises(QuotaExceeded):
        await pool.submit(priority=11)
