"""What failed code wrote last reaches its owner, is sealed, and is deleted with the log."""

from msgspec.structs import replace

from potluck.model.ids import TaskId
from potluck.model.task import EndReason
from potluck.server.encryption import rotation
from potluck.server.encryption.open_vault import open_vault
from potluck.server.flow.housekeeping import garbage
from potluck.server.flow.notify import task_stream
from potluck.store.tasks import item_failures
from potluck.wire.consumer import FailedItem
from potluck.wire.provider import Finished, Grant, ItemOutcome, ItemsDone
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.report.functions import ask, call
from tests.server.flow.schedule.arrays import give

LINES = "Traceback (most recent call last):\nValueError: the planted secret"


def failed(grant: Grant) -> Finished:
    return done(grant, EndReason.EXIT_STATUS, exit_code=1, detail="status 1", last_lines=LINES)


def failed_item(grant: Grant, item: int) -> ItemsDone:
    outcome = ItemOutcome(item, EndReason.EXIT_STATUS, 0.1, 1, "status 1", last_lines=LINES)
    return ItemsDone(lease_of(grant), (outcome,))


async def failures(pool: Pool, task_id: TaskId) -> list[FailedItem]:
    async with pool.services.database.transaction() as connection:
        return await item_failures.page(connection, pool.services.vault, task_id, -1, 10)


async def count_rows_in_clear(pool: Pool, table: str) -> int:
    query = f"SELECT count(*) FROM {table} WHERE {table}::text ~ ($1 || '|' || $2)"
    count: int = await pool.sql(query, "planted", b"planted".hex())
    return count


async def test_a_failed_task_has_the_last_lines_of_its_newest_attempt(pool: Pool) -> None:
    node_id, grant = await pool.started(max_attempts=1)
    await pool.report(node_id, failed(grant))
    task = await task_stream.view(pool.services, pool.alice, grant.task_id)
    assert task.last_lines == task.attempts[0].last_lines == LINES
    for table in ("attempts", "tasks", "events"):
        assert await count_rows_in_clear(pool, table) == 0


async def test_a_task_that_is_retried_has_them_in_its_attempt_only(pool: Pool) -> None:
    node_id, grant = await pool.started(max_attempts=2)
    await pool.report(node_id, failed(grant))
    task = await pool.task(grant.task_id)
    assert (task.last_lines, task.attempts[0].last_lines) == ("", LINES)


async def test_a_failed_item_has_its_own(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=2, max_attempts=1)
    grant = await give(pool, node, task.id, 0, 2)
    await pool.report(node.node_id, failed_item(grant, 1))
    (bad,) = await failures(pool, task.id)
    assert (bad.item, bad.last_lines) == (1, LINES)
    assert await count_rows_in_clear(pool, "failed_items") == 0


async def test_a_call_without_an_exception_tells_them_to_its_caller(pool: Pool) -> None:
    node, task = await pool.offer(), await call(pool)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, failed(grant))
    (result,) = await ask(pool, task.id)
    assert (result.detail, result.last_lines) == ("status 1", LINES)


async def test_last_lines_are_deleted_with_the_log(pool: Pool) -> None:
    node, task = await pool.offer(), await pool.submit(items=2, max_attempts=1)
    grant = await give(pool, node, task.id, 0, 2)
    await pool.report(node.node_id, failed_item(grant, 0), failed_item(grant, 1), failed(grant))
    settings = replace(pool.services.settings, keep_results_seconds=0.0)
    await garbage.clear_tasks(replace(pool.services, settings=settings))
    assert {bad.last_lines for bad in await failures(pool, task.id)} == {""}
    assert {attempt.last_lines for attempt in (await pool.task(task.id)).attempts} == {""}


async def test_a_rotation_reaches_them(pool: Pool) -> None:
    vault, keys = await open_vault(pool.services.settings, pool.services.database)
    filed = Pool(replace(pool.services, vault=vault, keys=keys), pool.alice, pool.bob, pool.leads)
    node, task = await filed.offer(), await filed.submit(items=1, max_attempts=1)
    grant = await give(filed, node, task.id, 0, 1)
    await filed.report(node.node_id, failed_item(grant, 0), failed(grant))
    rotation_status = await rotation.begin(filed.services, filed.alice)
    assert rotation_status.remaining == 3, "the spec, the attempt and the item"
    assert (await rotation.rewrite(filed.services, filed.alice)).rewritten == 3
    used = "SELECT array_agg(DISTINCT encode(last_lines_by, 'hex')) FROM "
    for table in ("attempts", "failed_items"):
        assert await filed.sql(used + table) == [rotation_status.key_id]
    (bad,) = await failures(filed, task.id)
    assert bad.last_lines == LINES
