"""Which tasks a listing shows, and that a page costs a page whatever is known of the table."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from bench.seed import seed_tasks
from potluck.model.ids import AccountId, TaskId, first_id_at, is_id
from potluck.model.task import TaskState
from potluck.store.sql_files import load
from potluck.store.tasks import task_list
from potluck.store.tasks.task_list import TaskFilter
from tests.databases import Databases

MINE, OTHERS = AccountId("account_" + "0" * 26), AccountId("account_" + "4".rjust(26, "0"))
TASKS = 20_000
INDEXES = {"newest_by_state": "tasks_listed_by_state", "newest_by_name": "tasks_listed_by_name"}


@pytest.fixture(scope="module")
def seeded_url(databases: Databases) -> Iterator[str]:
    """For all tests here: they only read, and nobody gathers statistics."""
    with databases.fresh() as url:
        asyncio.run(_seed(url))
        yield url


@pytest.fixture
async def connection(seeded_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(seeded_url)
    yield connection
    await connection.close()


@pytest.fixture
async def analysed(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """To one of its own, of which PostgreSQL knows all."""
    await _seed(database_url)
    connection = await asyncpg.connect(database_url)
    await connection.execute("ANALYZE tasks")
    yield connection
    await connection.close()


async def _seed(url: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("ALTER TABLE tasks SET (autovacuum_enabled = false)")
        await seed_tasks(connection, TASKS, accounts=10)
    finally:
        await connection.close()


def moment(row: asyncpg.Record) -> datetime:
    """When its id was made."""
    alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
    milliseconds = 0
    for character in row["id"].removeprefix("task_")[:10]:
        milliseconds = milliseconds * 32 + alphabet.index(character)
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


FILTERS = [
    TaskFilter(),
    TaskFilter(states=(TaskState.FAILED,)),
    TaskFilter(states=(TaskState.QUEUED, TaskState.CANCELLED, TaskState.QUEUED)),
    TaskFilter(kind="script"),
    TaskFilter(name="train.py"),
    TaskFilter(name="eval-3.py", states=(TaskState.SUCCEEDED, TaskState.QUEUED)),
    TaskFilter(name="nothing.py"),
]
SEARCHES = [
    TaskFilter(find="RAIN"),
    TaskFilter(find="-3.", states=(TaskState.SUCCEEDED, TaskState.QUEUED)),
    TaskFilter(find="nothing"),
    TaskFilter(find="%"),
]


@pytest.mark.parametrize("task_filter", [*FILTERS, *SEARCHES], ids=str)
@pytest.mark.parametrize("account_id", [MINE, OTHERS])
async def test_pages_show_all_that_fits_once_newest_first(
    connection: asyncpg.Connection, task_filter: TaskFilter, account_id: AccountId
) -> None:
    rows = await connection.fetch(
        "SELECT id, account_id, state, name, kind FROM tasks ORDER BY id DESC"
    )
    fitting = [row["id"] for row in rows if fits(row, account_id, task_filter)]
    shown_ids: list[TaskId] = []
    before = None
    while len(shown_ids) < 1200:
        page = await task_list.page(connection, account_id, task_filter, before, 400)
        shown_ids += page.ids
        before = page.next_id
        if before is None:
            break
    assert shown_ids == fitting[: len(shown_ids)]
    assert len(shown_ids) == min(len(fitting), 1200)


async def test_times_are_bounds_on_ids(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT id FROM tasks WHERE account_id = $1 AND state = 'queued' ORDER BY id", MINE
    )
    middle, later = moment(rows[0]), moment(rows[-1]) + timedelta(milliseconds=1)
    queued = (TaskState.QUEUED,)
    task_filter = TaskFilter(queued, since=middle, until=later)
    page = await task_list.page(connection, MINE, task_filter, None, 5)
    assert page.ids == [row["id"] for row in rows[::-1][:5]]
    empty_filter = TaskFilter(queued, since=later)
    assert (await task_list.page(connection, MINE, empty_filter, None, 5)).ids == []
    empty_filter = TaskFilter(queued, until=middle)
    assert (await task_list.page(connection, MINE, empty_filter, None, 5)).ids == []
    for year in (1, 9999):
        assert is_id(first_id_at("task", datetime(year, 1, 1, tzinfo=UTC)), "task")


async def test_a_page_of_a_search_compares_a_bounded_number_of_names(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "MOST_COMPARED", 50)
    newest = await task_list.page(connection, MINE, TaskFilter(), None, 50)
    page = await task_list.page(connection, MINE, TaskFilter(find="nothing"), None, 5)
    assert page == task_list.IdPage([], newest.ids[-1])
    full = await task_list.page(connection, MINE, TaskFilter(find="."), None, 5)
    assert full == task_list.IdPage(newest.ids[:5], newest.ids[4])


async def test_a_search_reads_the_index_and_no_more_than_it_compares(
    analysed: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "MOST_COMPARED", 50)
    bounds = task_list._bounds(MINE, TaskFilter(find="nothing"), None, 50)
    sql, *values = load("listing").newest_like(**bounds, part="nothing", most_found=5)
    plan_text = await analysed.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", *values)
    plan = json.loads(plan_text)[0]["Plan"]
    scans = [node for node in walk(plan) if node.get("Relation Name") == "tasks"]
    assert [node.get("Index Name") for node in scans] == [INDEXES["newest_by_state"]], plan
    assert all(node["Actual Rows"] <= 50 for node in scans), plan


async def test_the_counts_of_a_search_agree_with_its_pages(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "MOST_COMPARED", TASKS)
    rows = await connection.fetch("SELECT id, account_id, state, name, kind FROM tasks")
    search = TaskFilter(find="train", kind="script")
    counts, capped = await task_list.count(connection, MINE, search, 10_000)
    fitting = [row["state"] for row in rows if fits(row, MINE, search)]
    assert counts == {state: fitting.count(state) for state in TaskState}
    assert capped == []


async def test_states_that_may_have_more_tasks_than_were_counted_are_named(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "MOST_COMPARED", 1)
    _, everywhere = await task_list.count(connection, MINE, TaskFilter(find="nothing"), 10_000)
    counts, capped = await task_list.count(connection, MINE, TaskFilter(), 5)
    rows = await connection.fetch("SELECT state FROM tasks WHERE account_id = $1", MINE)
    tasks = [TaskState(row["state"]) for row in rows]
    assert everywhere == sorted(set(tasks))
    assert sorted(capped) == sorted({state for state in tasks if tasks.count(state) >= 5})
    assert max(counts.values()) == 5


MODES = ("force_generic_plan", "force_custom_plan")


async def test_a_page_reads_what_it_shows(analysed: asyncpg.Connection) -> None:
    for mode in MODES:
        await assert_reads_what_it_shows(analysed, mode)


async def test_a_page_does_so_also_without_statistics(connection: asyncpg.Connection) -> None:
    estimate = "SELECT reltuples FROM pg_class WHERE oid = 'tasks'::regclass"
    assert await connection.fetchval(estimate) == -1
    for mode in MODES:
        await assert_reads_what_it_shows(connection, mode)


async def assert_reads_what_it_shows(connection: asyncpg.Connection, mode: str) -> None:
    for task_filter in FILTERS:
        plan = await explained(connection, mode, task_filter)
        scans = [node for node in walk(plan) if node.get("Relation Name") == "tasks"]
        assert [node.get("Index Name") for node in scans] == [INDEXES[block_of(task_filter)]], plan
        assert not any("Filter" in node for node in scans), plan
        assert not any(node["Node Type"] == "Bitmap Heap Scan" for node in scans), plan


async def explained(connection: asyncpg.Connection, mode: str, task_filter: TaskFilter) -> Any:
    """As a statement that was prepared, with real values."""
    sql, *values = task_list._query(MINE, task_filter, None, 50)
    await connection.execute(f"SET plan_cache_mode = {mode}")
    kinds = "text[], text, text, bigint"
    await connection.execute(f"PREPARE listed ({kinds}) AS {sql}")
    arguments = ", ".join(_literal(value) for value in values)
    try:
        plan_text = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE listed ({arguments})")
    finally:
        await connection.execute("DEALLOCATE listed")
    return json.loads(plan_text)[0]["Plan"]


def block_of(task_filter: TaskFilter) -> str:
    sql = task_list._query(MINE, task_filter, None, 50)[0]
    return next(name for name in INDEXES if load("listing").blocks[name].text == sql)


def walk(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(descendant for child in node.get("Plans", []) for descendant in walk(child))]


def fits(row: asyncpg.Record, account_id: AccountId, task_filter: TaskFilter) -> bool:
    return (
        row["account_id"] == account_id
        and (not task_filter.states or row["state"] in task_filter.states)
        and task_filter.name in (None, row["name"])
        and (task_filter.find or "").lower() in row["name"].lower()
        and task_filter.kind in (None, row["kind"])
    )


def _literal(value: object) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_literal, value))}]::text[]"
    return str(value) if isinstance(value, int) else f"'{value}'"
