"""Many tasks in one request: all of them, or all but those that are refused, and never twice."""

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, Value
from potluck.model.ids import TaskId
from potluck.model.task import TaskRequest, TaskState
from potluck.model.task_spec import FunctionSpec
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit.submit_many import submit_many
from potluck.store.database import Connection, Database
from potluck.wire.results import Submitted
from tests.server.flow.pool import Pool, request
from tests.server.flow.report.functions import function

pytestmark = pytest.mark.every_postgres


async def send(pool: Pool, *requests: TaskRequest, key: str | None = None) -> list[Submitted]:
    return (await submit_many(pool.services, pool.alice, requests, key)).tasks


async def test_all_of_them_enter_in_their_order(pool: Pool) -> None:
    outcomes = await send(pool, request(priority=1), function(), request(items=3))
    ids = [outcome.task_id for outcome in outcomes if outcome.task_id is not None]
    assert ids == sorted(ids)  # so lists show them in their order
    tasks = [await pool.task(task_id) for task_id in ids]
    assert [task.kind for task in tasks] == ["script", "function", "script"]
    assert [task.priority for task in tasks] == [1, 0, 0]
    assert tasks[2].items is not None and tasks[2].items.pending == 3
    assert await pool.sql("SELECT count(*) FROM events WHERE kind = 'task.queued'") == 3
    await pool.check()


async def test_a_refused_task_does_not_affect_the_others(pool: Pool) -> None:
    unsent = FunctionSpec("f", Value(blob=BlobRef("ab" * 32, 7)), Value(b""), "3.11")
    wrong = request(allow_failures=1)
    for bad, sentence in [(wrong, "Only an array"), (TaskRequest(unsent), "no blob abab")]:
        outcomes = await send(pool, request(), bad, request())
        assert [outcome.task_id is None for outcome in outcomes] == [False, True, False]
        assert (outcomes[1].code, sentence in outcomes[1].detail) == ("invalid_input", True)
        assert outcomes[1].hint
    assert await pool.sql("SELECT count(*) FROM tasks") == 4


async def test_the_same_list_again_is_the_same_tasks(pool: Pool) -> None:
    requests = [request(priority=place) for place in range(5)]
    first, second = await asyncio.gather(
        send(pool, *requests, key="once"), send(pool, *requests, key="once")
    )
    assert first == second == await send(pool, *requests, key="once")
    assert await pool.sql("SELECT count(*) FROM tasks") == 5
    changed = [replace(requests[0], priority=9), *requests[1:]]
    outcomes = await send(pool, *changed, request(), key="once")
    assert [outcome.code for outcome in outcomes] == ["conflict", "", "", "", "", ""]
    assert outcomes[1:5] == first[1:]
    assert await pool.sql("SELECT count(*) FROM tasks") == 6


async def test_a_longer_list_at_the_same_moment_finds_what_the_shorter_one_made(pool: Pool) -> None:
    requests = [request(priority=place) for place in range(5)]
    shorter, longer = await asyncio.gather(
        send(pool, *requests[:3], key="once"), send(pool, *requests, key="once")
    )
    assert longer[:3] == shorter
    assert len({outcome.task_id for outcome in longer} - {None}) == 5
    assert await pool.sql("SELECT count(*) FROM tasks") == 5
    assert await pool.sql("SELECT count(*) FROM events WHERE kind = 'task.queued'") == 5


async def test_the_quota_holds_for_lists_too(pool: Pool) -> None:
    await pool.sql("UPDATE accounts SET max_queued_tasks = 3 WHERE id = $1", pool.alice)
    outcomes = await send(pool, *(request() for _ in range(5)))
    assert [outcome.code for outcome in outcomes] == [
        "",
        "",
        "",
        "quota_exceeded",
        "quota_exceeded",
    ]
    assert await pool.sql("SELECT count(*) FROM tasks") == 3


async def test_dependents_in_a_list_wait_for_their_dependencies(pool: Pool) -> None:
    before, ended_task = await pool.submit(), await pool.submit()
    await cancel.cancel(pool.services, pool.alice, ended_task.id)
    outcomes = await send(
        pool, request(after=(before.id,)), request(), request(after=(ended_task.id,))
    )
    assert all(outcome.task_id for outcome in outcomes)
    waits = await pool.task(outcomes[0].task_id or before.id)
    assert waits.after == [before.id] and waits.waiting is not None
    assert (await pool.task(outcomes[2].task_id or before.id)).state is TaskState.CANCELLED
    await pool.check()


async def test_a_thousand_are_one_transaction(pool: Pool) -> None:
    before = await pool.sql("SELECT count(DISTINCT created_at) FROM tasks")
    await send(pool, *(function() for _ in range(1_000)))
    assert before == 0 and await pool.sql("SELECT count(DISTINCT created_at) FROM tasks") == 1


@pytest.mark.parametrize("key", [None, "a key"])
@pytest.mark.parametrize("kind", ["dependent", "refused", "without room"])
async def test_a_batch_takes_a_few_transactions_with_any_content(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, kind: str, key: str | None
) -> None:
    before = await pool.submit()
    unknown = TaskId("task_01jd0000000000000000000000")
    request_lists = {
        "dependent": [request(after=(before.id,), priority=number) for number in range(30)],
        "refused": [request(after=(unknown,)) for _ in range(30)],
        "without room": [request() for _ in range(30)],
    }[kind]
    if kind == "without room":
        await pool.sql("UPDATE accounts SET max_queued_tasks = 11")
    used = 0
    shared = Database.transaction

    def counted(database: Database) -> AbstractAsyncContextManager[Connection]:
        nonlocal used
        used += 1
        return shared(database)

    monkeypatch.setattr(Database, "transaction", counted)
    outcomes = await send(pool, *request_lists, key=key)
    assert used <= 1
    stored = [outcome for outcome in outcomes if outcome.task_id]
    assert len(stored) == {"dependent": 30, "refused": 0, "without room": 10}[kind]
    assert outcomes[: len(stored)] == stored, "the first ones have the room"


async def test_two_equal_lists_at_the_same_moment_share_the_last_places(pool: Pool) -> None:
    await pool.sql("UPDATE accounts SET max_queued_tasks = 20")
    requests = [request(priority=place) for place in range(30)]
    lists = await asyncio.gather(*(send(pool, *requests, key="once") for _ in range(4)))
    assert all(outcomes == lists[0] for outcomes in lists)
    assert [bool(outcome.task_id) for outcome in lists[0]] == [True] * 20 + [False] * 10
    assert await pool.sql("SELECT count(*) FROM tasks") == 20
