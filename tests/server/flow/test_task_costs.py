"""What a task or a call costs the server and PostgreSQL, in counts that no machine changes.

Each mode runs the stages as the routes and the leader call them, until nothing is left to announce.
Calls of a stream come one at a time, from threads, or in a loop: how many share a request is what
clients and nodes gathered in measurements. The limits are a little above what was counted. A change
that needs more has to say why here.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from potluck.model.ids import NodeId, TaskId
from potluck.model.task import TaskRequest
from potluck.model.task_spec import CommandSpec
from potluck.server.flow.lease import lease
from potluck.server.flow.notify.notify import notify_once
from potluck.server.flow.schedule.schedule import schedule_once
from potluck.server.flow.submit.submit import submit
from potluck.server.flow.submit.submit_many import submit_many
from potluck.server.leader.memory import LeaderMemory
from potluck.wire.provider import AcquireLeases, Grant, GrantedItems, Report, Started
from potluck.wire.results import Results
from tests.server.flow.counted_requests import Statements, statements
from tests.server.flow.pool import Pool, done, lease_of, request
from tests.server.flow.schedule.arrays import succeeded
from tests.server.flow.submit.test_streams import add, open_stream, poll, results, returned

__all__ = ["statements"]

_COUNTED = """
SELECT pg_stat_force_next_flush(), wal.wal_records, wal.wal_bytes,
    (SELECT tup_returned + tup_fetched FROM pg_stat_database
        WHERE datname = current_database()) AS rows_read
FROM pg_stat_get_backend_wal(pg_backend_pid()) AS wal
"""
_COMMITTED_ALONE = ("append_items(", "accept_items(")
_WARM, _ROUNDS, _LINE, _ITEMS = 3, 5, 20, 100


class Costs(Struct, frozen=True):
    """Of one task or call. `commits` are those of transactions, and of the single statements that
    store calls and results. A row that is found by an index counts twice in `rows_read`: its entry,
    and the row.
    """

    requests: float
    statements: float
    commits: float
    wal_records: float
    wal_bytes: float
    rows_read: float


# The task, the list of tasks and the array are each in one request; so are fetching and reporting.
MOST = {
    "script": Costs(3, 17, 3, 132, 17_200, 246),
    "command": Costs(3, 17, 3, 132, 17_200, 246),
    "list": Costs(0.15, 0.9, 0.15, 107, 17_500, 205),
    "array": Costs(5, 28, 5, 240, 31_500, 470),
}
# Calls that share a request.
CALLS = {"one call at a time": 1, "calls of threads": 20, "calls in a loop": 250}
MOST |= {
    "one call at a time": Costs(4, 6, 2, 23, 4_600, 90),
    "calls of threads": Costs(0.2, 0.3, 0.1, 1.2, 280, 5),
    "calls in a loop": Costs(0.016, 0.024, 0.008, 0.15, 60, 1),
}


class Mode:
    """A leader, and a node that runs what it gets at once."""

    def __init__(self, pool: Pool, node_id: NodeId, memory: LeaderMemory) -> None:
        self.pool, self.node_id, self.memory = pool, node_id, memory
        self.requests = 0
        self.calls: StandingCalls | None = None
        self._announced = 0

    @classmethod
    async def open(cls, pool: Pool) -> "Mode":
        # On a slow machine a node would be marked as seen again meanwhile.
        settings = replace(pool.services.settings, heartbeat_seconds=10_000.0)
        pool.services = replace(pool.services, settings=settings)
        node = await pool.offer()
        memory = LeaderMemory(pool.services)
        await memory.begin()
        await memory.load_more()
        return cls(pool, node.node_id, memory)

    async def run(self, sent: Awaitable[Any], report: Callable[[Grant], list[Report]]) -> None:
        """Whatever was granted ends in one report; it goes on until nothing is granted."""
        await sent
        self.requests += 1
        while grants := await self._lead_and_fetch():
            reports = [message for grant in grants for message in report(grant)]
            codes = await self.pool.report(self.node_id, *reports)
            assert codes == ["accepted"] * len(reports)
            self.requests += 2

    async def run_calls(self, count: int) -> None:
        if self.calls is None:
            opened = await open_stream(self.pool)
            await schedule_once(self.pool.services, self.pool.leads, self.memory)
            poll_request = AcquireLeases(wait_seconds=0, streams=())
            response = await lease.acquire(
                self.pool.services, self.pool.bobs, self.node_id, poll_request
            )
            self.calls = StandingCalls(self.pool, self.node_id, opened.id, response.grants[0])
            await self.calls.begin()
        await self.calls.run(count)
        self.requests += 4

    async def _lead_and_fetch(self) -> list[Grant]:
        await schedule_once(self.pool.services, self.pool.leads, self.memory)
        self._announced = (await notify_once(self.pool.services, self._announced)).place
        return await self.pool.fetch(self.node_id)


class StandingCalls:
    """A stream, and an attempt that keeps its lease. Node and client look before calls come, and
    again when they are woken: one after the other here, since all use one connection.
    """

    def __init__(self, pool: Pool, node_id: NodeId, task_id: TaskId, grant: Grant) -> None:
        self._pool, self._node_id, self._task_id, self._grant = pool, node_id, task_id, grant
        self._known, self._behind = 1, 1

    async def begin(self) -> None:
        done_first = Started(lease_of(self._grant)), returned(self._grant, 0, 1)
        assert await self._pool.report(self._node_id, *done_first) == ["accepted"] * 2

    async def run(self, count: int) -> None:
        start, end = self._known, self._known + count
        assert not await self._poll() and not (await self._results()).results
        await add(self._pool, self._task_id, start, *[b"arguments"] * count)
        assert [(part.start, part.end) for part in await self._poll()] == [(start, end)]
        report = returned(self._grant, start, end)
        assert await self._pool.report(self._node_id, report) == ["accepted"]
        (result,) = (await self._results()).results
        self._known, self._behind = end, result.behind

    async def _poll(self) -> list[GrantedItems]:
        return (await poll(self._pool, self._node_id, self._grant, self._known)).items

    async def _results(self) -> Results:
        return await results(self._pool, self._task_id, self._behind)


def ends(grant: Grant) -> list[Report]:
    return [Started(lease_of(grant)), done(grant)]


def items_end(grant: Grant) -> list[Report]:
    items = [item for part in grant.items for item in range(part.start, part.end)]
    return [Started(lease_of(grant)), succeeded(grant, *items, seconds=0.0), done(grant)]


async def run_mode(mode: Mode, name: str) -> int:
    """How many tasks it was."""
    if name in CALLS:
        await mode.run_calls(CALLS[name])
        return CALLS[name]
    services, alice = mode.pool.services, mode.pool.alice
    short = request(expected_seconds=0.01)
    if name == "list":
        await mode.run(submit_many(services, alice, [short] * _LINE, None), ends)
        return _LINE
    if name == "array":
        await mode.run(submit(services, alice, replace(short, items=_ITEMS), None), items_end)
        return 1
    command: TaskRequest = replace(short, spec=CommandSpec(("/bin/true",)))
    await mode.run(submit(services, alice, command if name == "command" else short, None), ends)
    return 1


async def count(mode: Mode, name: str, statements: Statements) -> Costs:
    for _ in range(_WARM):
        await run_mode(mode, name)
    before, mode.requests, _ = await _stats(mode.pool), 0, statements.take()
    tasks = sum([await run_mode(mode, name) for _ in range(_ROUNDS)])
    sent = statements.take()
    after = await _stats(mode.pool)
    wal_records, wal_bytes, rows_read = (b - a for a, b in zip(before, after, strict=True))
    begin_count = sum(statement.startswith("BEGIN") for statement in sent)
    commit_count = sum(statement.startswith("COMMIT") for statement in sent)
    plain = [statement for statement in sent if not statement.startswith(("BEGIN", "COMMIT"))]
    assert begin_count == commit_count
    commit_count += sum(any(ending in query for ending in _COMMITTED_ALONE) for query in plain)
    return Costs(
        mode.requests / tasks,
        len(plain) / tasks,
        commit_count / tasks,
        wal_records / tasks,
        wal_bytes / tasks,
        rows_read / tasks,
    )


async def _stats(pool: Pool) -> tuple[int, int, int]:
    """Of the one connection that all of this uses. It counts at the end of a transaction, so the
    second look has all of the first."""
    for _ in range(2):
        async with pool.services.database.statement() as connection:
            if connection.get_server_version().major < 18:
                pytest.skip("an earlier PostgreSQL does not count the WAL of one connection")
            row = await connection.fetchrow(_COUNTED)
    assert row is not None
    return int(row["wal_records"]), int(row["wal_bytes"]), int(row["rows_read"])


@pytest.mark.parametrize("name", MOST)
async def test_a_task_costs_no_more_than_it_did(
    statements: Statements, pool: Pool, name: str
) -> None:
    costs = await count(await Mode.open(pool), name, statements)
    fields = Costs.__struct_fields__
    exceeded = {field for field in fields if getattr(costs, field) > getattr(MOST[name], field)}
    assert not exceeded, (exceeded, costs)


@pytest.mark.parametrize("analyzed_after", [None, 100], ids=["never", "after 100"])
async def test_a_script_reads_as_many_rows_when_the_tables_have_grown(
    pool: Pool, analyzed_after: int | None
) -> None:
    """With the plans that the connection keeps, whether the tables were ever analysed or not."""
    mode, most = await Mode.open(pool), MOST["script"].rows_read
    for number in range(250):
        if number == analyzed_after:
            await pool.sql("ANALYZE")
        await run_mode(mode, "script")
    before = await _stats(pool)
    await run_mode(mode, "script")
    rows_read = (await _stats(pool))[2] - before[2]
    assert rows_read <= most, rows_read


_IN_PLACE = """
SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
WHERE relname = ANY($1)
"""


async def test_calls_update_their_rows_in_place(pool: Pool) -> None:
    """Without new entries in the indexes."""
    mode = await Mode.open(pool)
    for _ in range(20):
        await mode.run_calls(1)
    await _check_in_place(pool, "tasks", "attempts")


async def test_events_are_never_updated(pool: Pool) -> None:
    """Once it is known that no instance of another version runs."""
    mode = await Mode.open(pool)
    await run_mode(mode, "script")
    inserted_before, updated_before = await _event_changes(pool)
    for _ in range(5):
        await run_mode(mode, "script")
    inserted, updated = await _event_changes(pool)
    assert inserted - inserted_before >= 25 and updated == updated_before


async def _event_changes(pool: Pool) -> tuple[int, int]:
    await _stats(pool)
    async with pool.services.database.statement() as connection:
        (events,) = await connection.fetch(
            "SELECT n_tup_ins, n_tup_upd FROM pg_stat_user_tables WHERE relname = 'events'"
        )
    return events["n_tup_ins"], events["n_tup_upd"]


async def test_scripts_update_their_devices_in_place(pool: Pool) -> None:
    """The leader learns of them by their node, which changes in the same transaction."""
    mode = await Mode.open(pool)
    for _ in range(40):
        await run_mode(mode, "script")
    await _check_in_place(pool, "devices")


async def test_every_other_change_of_a_device_is_marked_for_the_leader(pool: Pool) -> None:
    columns = await pool.sql(
        "SELECT array_agg(attname::text ORDER BY attname) FROM pg_attribute"
        " WHERE attrelid = 'devices'::regclass AND attnum > 0 AND NOT attisdropped"
    )
    trigger = await pool.sql(
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'devices_changed'"
    )
    not_marked = {name for name in columns if not re.search(rf'old\."?{name}\b', trigger)}
    assert not_marked == {"id", "free_milli", "used_memory_bytes", "changed"}


async def _check_in_place(pool: Pool, *names: str) -> None:
    await _stats(pool)
    async with pool.services.database.statement() as connection:
        tables = await connection.fetch(_IN_PLACE, names)
    assert len(tables) == len(names)
    for name, updates, in_place in tables:
        assert updates >= 40 and in_place >= updates * 0.8, (name, updates, in_place)


_NODES = """
INSERT INTO nodes (id, account_id, name, state, own_tasks_only, description, cores, memory_bytes,
    disk_bytes, heartbeat_at)
SELECT 'node_' || lpad(n::text, 26, '0'), $1, 'many', 'online', false,
    '{"labels": [], "sandbox": {"driver": "bwrap"}}', 64, 2^40, 2^40, now()
FROM generate_series(1, 2000) AS n
"""
_DEVICES = """
INSERT INTO devices (id, node_id, uuid, position, kind, description, model, memory_bytes,
    price_micro_per_hour, standing)
SELECT replace(nodes.id, 'node_', 'device_') || kind, nodes.id, nodes.id || kind, 0, kind,
    '{"vendor": "NVIDIA"}', 'A100', 2^35, 5, 'bound'
FROM nodes, (VALUES ('cpu'), ('gpu')) AS of_kind (kind) WHERE name = 'many'
"""


async def test_a_submission_does_not_read_all_devices(pool: Pool) -> None:
    await pool.sql(_NODES, pool.bob)
    await pool.sql(_DEVICES)
    await pool.give(pool.alice, 10**12)
    await pool.submit()
    before = await _stats(pool)
    await pool.submit()
    rows_read = (await _stats(pool))[2] - before[2]
    assert rows_read < 1_000, rows_read


async def test_a_script_reads_about_as_many_rows_with_many_nodes(pool: Pool) -> None:
    """With the plans that were made for one node. The cheapest price is of 64 offers of each kind,
    with their nodes."""
    mode, most = await Mode.open(pool), MOST["script"].rows_read + 2 * 64 * 4
    for _ in range(20):
        await run_mode(mode, "script")
    await pool.sql(_NODES, pool.bob)
    await pool.sql("UPDATE nodes SET own_tasks_only = true WHERE name = 'many'")
    await pool.sql(_DEVICES)
    for _ in range(10):  # the leader reads the new nodes
        await run_mode(mode, "script")
    before = await _stats(pool)
    await run_mode(mode, "script")
    rows_read = (await _stats(pool))[2] - before[2]
    assert rows_read < 1.2 * most, rows_read
