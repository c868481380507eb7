"""A task that has ended, once more: the same, as a new one, with all that can still come along."""

from typing import Any

import pytest
from msgspec.structs import replace

from potluck.decide.arrays.retry_items import ArrayEnd, RetryPlan, plan_retry
from potluck.model.blob import NamedFile
from potluck.model.error import Conflict, InvalidInput, NotFound
from potluck.model.task import EndReason, ItemRange, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import submit
from potluck.server.flow.submit.retry import retry_task
from potluck.store.tasks import retry_source
from potluck.wire.consumer import RetryTask, TaskView
from tests.server.flow.blob_uploads import send
from tests.server.flow.pool import Pool, done, request
from tests.server.flow.schedule.arrays import failed, give, succeeded


async def tried_again(pool: Pool, task_id: Any, key: str | None = None, **changes: Any) -> TaskView:
    return await retry_task(pool.services, pool.alice, task_id, RetryTask(**changes), key)


async def as_asked(pool: Pool, task_id: Any) -> TaskRequest:
    async with pool.services.database.transaction() as connection:
        source = await retry_source.load_source(
            connection, pool.services.vault, task_id, pool.alice
        )
    return source.request


async def test_a_retry_is_the_same_task_with_another_id(pool: Pool) -> None:
    fields: dict[str, Any] = {
        "name": "again",
        "priority": 3,
        "max_attempts": 2,
        "start_within_seconds": 3600.0,
        "expected_seconds": 5.0,
        "device_model": "RTX*",
        "run_seconds": 60.0,
    }
    first = await pool.submit(**fields)
    await cancel.cancel(pool.services, pool.alice, first.id)
    second = await tried_again(pool, first.id)
    assert second.id != first.id and second.retry_of == first.id
    assert second.state is TaskState.QUEUED
    stored_request, expected_request = await as_asked(pool, second.id), request(**fields)
    assert replace(stored_request, start_within_seconds=3600.0) == expected_request
    assert stored_request.start_within_seconds == pytest.approx(3600.0)
    await pool.check()


async def test_a_retry_does_not_wait_for_dependencies_again(pool: Pool) -> None:
    before = await pool.submit()
    task = await pool.submit(after=(before.id,), delay_seconds=1000.0)
    await cancel.cancel(pool.services, pool.alice, before.id)
    await cancel.cancel(pool.services, pool.alice, task.id)
    second = await tried_again(pool, task.id)
    assert (second.after, second.not_before, second.waiting) == ([], None, None)


async def test_with_a_key_it_is_tried_again_once(pool: Pool) -> None:
    first = await pool.submit(key="submitted")
    other = await pool.submit()
    for task in (first, other):
        await cancel.cancel(pool.services, pool.alice, task.id)
    second = await tried_again(pool, first.id, "key")
    assert (await tried_again(pool, first.id, "key")).id == second.id
    with pytest.raises(Conflict, match="used for another task"):
        await tried_again(pool, other.id, "key")
    assert (await tried_again(pool, first.id)).id not in (first.id, second.id)


async def test_only_own_ended_tasks_can_be_retried(pool: Pool) -> None:
    task = await pool.submit()
    with pytest.raises(Conflict, match="has not ended yet: it is queued"):
        await tried_again(pool, task.id)
    await cancel.cancel(pool.services, pool.alice, task.id)
    with pytest.raises(NotFound):
        await retry_task(pool.services, pool.bob, task.id, RetryTask(), None)


async def test_a_retry_needs_the_secrets_again(pool: Pool) -> None:
    task = await pool.submit(secrets={"API_TOKEN": "very secret"})
    await cancel.cancel(pool.services, pool.alice, task.id)
    with pytest.raises(InvalidInput, match="had a secret, deleted when it ended") as raised:
        await tried_again(pool, task.id)
    assert "--secret NAME" in raised.value.hint
    second = await tried_again(pool, task.id, secrets={"API_TOKEN": "another"})
    assert second.requirements.owners == task.requirements.owners != ()
    with pytest.raises(Conflict):
        await tried_again(pool, second.id)


async def test_a_retry_has_the_files_as_long_as_they_are_kept(pool: Pool) -> None:
    data = await send(pool, b"data")
    spec = ScriptSpec("a.py", "1", files=(NamedFile("data.csv", data),))
    task = await submit.submit(pool.services, pool.alice, TaskRequest(spec), None)
    await cancel.cancel(pool.services, pool.alice, task.id)
    second = await tried_again(pool, task.id)
    blob_count = await pool.sql("SELECT count(*) FROM task_blobs WHERE task_id = $1", second.id)
    assert blob_count == 1
    await cancel.cancel(pool.services, pool.alice, second.id)
    await pool.sql("DELETE FROM task_blobs")
    await pool.sql("DELETE FROM blob_claims")
    with pytest.raises(Conflict, match="used a file, deleted") as raised:
        await tried_again(pool, task.id)
    assert "Submit it again" in raised.value.hint


async def array_with_failures(pool: Pool) -> tuple[Any, TaskView]:
    """Ten items: eight succeeded, 3 and 7 failed."""
    node = await pool.offer()
    task = await pool.submit(items=10)
    grant = await give(pool, node, task.id, 0, 10)
    good = [item for item in range(10) if item not in (3, 7)]
    await pool.report(node.node_id, succeeded(grant, *good, seconds=2.0), failed(grant, 3, 7))
    await pool.report(node.node_id, done(grant))
    return node, await pool.task(task.id)


async def test_a_retry_of_an_array_runs_the_failed_items_under_their_numbers(pool: Pool) -> None:
    node, task = await array_with_failures(pool)
    assert (task.state, task.reason) == (TaskState.FAILED, EndReason.ITEMS_FAILED)
    second = await tried_again(pool, task.id)
    assert second.items is not None
    assert (second.items.total, second.items.pending, second.items.succeeded) == (10, 2, 8)
    await pool.check()
    for item in (3, 7):
        grant = await give(pool, node, second.id, item, item + 1)
        assert grant.items == [ItemRange(item, item + 1)] and grant.items_total == 10
        await pool.report(node.node_id, succeeded(grant, item), done(grant))
    task_view = await pool.task(second.id)
    assert task_view.state is TaskState.SUCCEEDED and task_view.items is not None
    assert task_view.items.succeeded == 10
    await pool.check()
    with pytest.raises(Conflict, match="All its items have succeeded"):
        await tried_again(pool, second.id)
    whole_retry = await tried_again(pool, second.id, all_items=True)
    assert whole_retry.items is not None and whole_retry.items.pending == 10


async def test_an_array_that_was_called_off_goes_on(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit(items=10)
    grant = await give(pool, node, task.id, 0, 6)
    await pool.report(node.node_id, succeeded(grant, 0, 1))
    await cancel.cancel(pool.services, pool.alice, task.id)
    second = await tried_again(pool, task.id)
    assert second.items is not None
    assert (second.items.pending, second.items.succeeded) == (8, 2)
    await pool.check()


async def test_a_retry_inherits_the_duration_of_items(pool: Pool) -> None:
    _, task = await array_with_failures(pool)
    second = await tried_again(pool, task.id)
    first_seconds, taken_over = [
        await pool.sql("SELECT items_seconds FROM tasks WHERE id = $1", task.id)
        for task in (task, second)
    ]
    assert taken_over == pytest.approx(first_seconds * 8 / 10) and first_seconds > 0


ROWS = [
    # (how it ended, whether all, what is run again)
    (ArrayEnd(4, (ItemRange(1, 2),), 3, 4, 8.0), False, RetryPlan((ItemRange(1, 2),), 3, 6.0)),
    (ArrayEnd(4, (ItemRange(1, 2),), 3, 4, 8.0), True, RetryPlan((ItemRange(0, 4),))),
    # none has succeeded: nothing is taken over
    (ArrayEnd(4, (ItemRange(0, 4),), 0, 1, 8.0), False, RetryPlan((ItemRange(0, 4),))),
    # it is not known which are left
    (ArrayEnd(4, (ItemRange(1, 2),), 2, 4, 8.0), False, RetryPlan((ItemRange(0, 4),))),
]


@pytest.mark.parametrize(("end", "all_items", "expected"), ROWS)
def test_which_items(end: ArrayEnd, all_items: bool, expected: RetryPlan) -> None:
    assert plan_retry(end, all_items) == expected
