"""Rows are locked in one order: task, attempt, node, device, balance. So nobody waits in a circle.

Each test holds one row, lets a stage run into it, and asks for a row that the stage must not have
taken yet. In another order the two would wait for each other.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from potluck.decide.types import Assignment, DeviceShare
from potluck.model.account import Role
from potluck.model.blob import BlobRef, NamedFile
from potluck.model.device import DeviceKind
from potluck.model.ids import NodeId, TaskId
from potluck.model.task import GIB, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.housekeeping.garbage import release_unused_claims
from potluck.server.flow.lease.adopt import readopt
from potluck.server.flow.schedule import dependents
from potluck.server.flow.schedule.assign import apply_assignments
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import file_access, submit
from potluck.server.flow.submit.submit_many import submit_many
from potluck.store.attempts.assign import PlannedAttempt, assign
from potluck.store.files import blobs
from potluck.store.identity import accounts
from potluck.store.new_ids import new_attempt_id
from potluck.wire.consumer import TaskView
from potluck.wire.files import AddedFile, AddFiles
from potluck.wire.provider import Grant, NodeRegistered, Preparing, Started
from tests.server.flow.blob_uploads import send
from tests.server.flow.pool import Pool, done, lease_of, request
from tests.wallets import Wallet

Stage = Callable[[Pool, NodeId, Grant], Awaitable[Any]]

TASK = "SELECT FROM tasks FOR UPDATE"
ATTEMPT = "SELECT FROM attempts FOR UPDATE"
NODE = "SELECT FROM nodes FOR UPDATE"
DEVICE = "SELECT FROM devices FOR UPDATE"
BALANCE = "SELECT FROM balances FOR UPDATE"

ORDER = [
    # (the stage, the row that somebody holds, the row that must still be free)
    ("preparing", lambda p, n, g: p.report(n, Preparing(lease_of(g))), TASK, ATTEMPT),
    ("started", lambda p, n, g: p.report(n, Started(lease_of(g))), TASK, ATTEMPT),
    ("finished", lambda p, n, g: p.report(n, done(g)), TASK, ATTEMPT),
    ("finished", lambda p, n, g: p.report(n, done(g)), ATTEMPT, DEVICE),
    ("finished, its device", lambda p, n, g: p.finish(g), NODE, DEVICE),
    ("finished, its pay", lambda p, n, g: p.finish(g), DEVICE, BALANCE),
    ("cancel", lambda p, n, g: cancel.cancel(p.services, p.alice, g.task_id), TASK, ATTEMPT),
    ("cancel", lambda p, n, g: cancel.cancel(p.services, p.alice, g.task_id), ATTEMPT, NODE),
    ("heartbeat", lambda p, n, g: p.beat(n, lease_of(g)), ATTEMPT, NODE),
    ("poll", lambda p, n, g: p.fetch(n), ATTEMPT, NODE),
]


@pytest.mark.parametrize(
    ("stage", "locking", "free"), [row[1:] for row in ORDER], ids=[row[0] for row in ORDER]
)
async def test_a_stage_waits_without_holding_what_comes_later(
    pool: Pool, stage: Stage, locking: str, free: str
) -> None:
    await pool.give(pool.alice, 10**12)
    node_id, grant = await pool.started(price_micro_per_hour=1000, run_seconds=10.0)
    async with pool.services.database.transaction() as connection:
        await connection.execute(locking)
        running = asyncio.ensure_future(stage(pool, node_id, grant))
        await until_it_waits(pool, running)
        await connection.execute(f"{free} NOWAIT")
    await running
    await pool.check()


@pytest.mark.parametrize(
    ("locking", "free"),
    [
        (TASK, ATTEMPT),
        (ATTEMPT, "SELECT FROM blob_use FOR UPDATE"),
        ("SELECT FROM blob_use FOR UPDATE", "SELECT FROM blobs FOR UPDATE"),
        ("SELECT FROM blobs FOR UPDATE", "SELECT FROM blob_claims FOR UPDATE"),
    ],
    ids=["task", "attempt", "use", "blob"],
)
async def test_files_wait_without_holding_what_comes_later(
    pool: Pool, locking: str, free: str
) -> None:
    node_id, grant = await pool.started()

    async def leave(path: str, attempt: Grant, node: NodeId) -> None:
        added_files = AddFiles(lease_of(attempt), (AddedFile(path, b"always the same"),))
        await file_access.add(pool.services, pool.bobs, node, added_files)

    await leave("a", grant, node_id)
    other_id, other = await pool.started()
    async with pool.services.database.transaction() as connection:
        await connection.execute(locking)
        running = asyncio.ensure_future(leave("b", other, other_id))
        await until_it_waits(pool, running)
        await connection.execute(f"{free} NOWAIT")
    await running


@pytest.mark.parametrize("after", [False, True], ids=["together", "after another"])
async def test_a_list_takes_all_that_it_names_in_the_order_of_the_hashes(
    pool: Pool, after: bool
) -> None:
    """Pins have run out, as those of all that nodes have sent: it holds each claim."""
    first = await pool.submit()
    sent = sorted([await send(pool, bytes([n])) for n in range(2)], key=lambda blob: blob.sha256)
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    requests = [naming(blob, (first.id,) if after else ()) for blob in reversed(sent)]
    claim = "SELECT FROM blob_claims WHERE sha256 = $1 FOR UPDATE"
    async with pool.services.database.transaction() as connection:
        await connection.execute(claim, bytes.fromhex(sent[0].sha256))
        running = asyncio.ensure_future(submit_many(pool.services, pool.alice, requests, None))
        await until_it_waits(pool, running)
        await connection.execute(f"{claim} NOWAIT", bytes.fromhex(sent[-1].sha256))
        await release_unused_claims(pool.services)  # waits for nobody, and leaves them
    assert all(task.task_id for task in (await running).tasks)


async def test_submissions_that_name_the_same_wait_for_no_other(pool: Pool) -> None:
    blob = await send(pool, b"weights")
    await pool.sql("UPDATE blob_claims SET pinned_until = now(), look_at = now()")
    async with pool.services.database.transaction() as connection:
        await blobs.lock_claims(connection, pool.alice, [blob.sha256])
        await release_unused_claims(pool.services)
        async with asyncio.timeout(30):
            task = await submit.submit(pool.services, pool.alice, naming(blob), None)
    assert task.state is TaskState.QUEUED


def naming(blob: BlobRef, after: tuple[TaskId, ...] = ()) -> TaskRequest:
    return TaskRequest(ScriptSpec("a.py", "", files=(NamedFile("data", blob),)), after=after)


@pytest.mark.parametrize(
    ("locking", "free"),
    [
        ("SELECT FROM tasks WHERE id = (SELECT max(id) FROM tasks) FOR UPDATE", NODE),
        ("SELECT FROM nodes WHERE id = (SELECT max(id) FROM nodes) FOR UPDATE", DEVICE),
        ("SELECT FROM devices WHERE id = (SELECT max(id) FROM devices) FOR UPDATE", BALANCE),
    ],
    ids=["tasks first", "then nodes", "then devices"],
)
async def test_a_batch_takes_its_rows_kind_by_kind(pool: Pool, locking: str, free: str) -> None:
    await pool.give(pool.alice, 10**12)
    for _ in range(2):
        await pool.offer(price_micro_per_hour=1000)
        await pool.submit(run_seconds=10.0)
    async with pool.services.database.transaction() as connection:
        await connection.execute(locking)
        running = asyncio.ensure_future(pool.plan())
        await until_it_waits(pool, running)
        await connection.execute(f"{free} NOWAIT")
    assert len((await running).assigned) == 2
    await pool.check()


async def test_a_lost_share_is_not_readopted_beside_a_new_account(pool: Pool) -> None:
    """Whoever adopts waits for the assign on that node, and then sees whom it let in."""
    async with pool.services.database.transaction() as connection:
        added = await accounts.add(connection, Wallet("carol").address, {Role.CONSUMER})
    assert added is not None
    node = await pool.offer()
    part: dict[str, Any] = {
        "device_milli": 400,
        "device_kind": DeviceKind.GPU,
        "device_memory_bytes": GIB,
    }
    first_task = await pool.submit(**part)
    assert await apply_assignments(pool.services, pool.leads, [_share(node, first_task)])
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, Started(lease_of(grant)))
    await _run_out(pool)
    assert await expire.expire_once(pool.services, pool.leads) == 1
    second_task = await submit.submit(pool.services, added.id, request(**part), None)
    async with pool.services.database.transaction() as connection:
        planned_attempt = PlannedAttempt(new_attempt_id(), _share(node, second_task))
        assert await assign(connection, [planned_attempt], pool.leads, 15.0)
        running = asyncio.ensure_future(_adopt(pool, node.node_id, grant))
        await until_it_waits(pool, running)
    assert not await running
    serves = "SELECT count(DISTINCT consumer_id) FROM attempts WHERE finished_at IS NULL"
    assert await pool.sql(serves) == 1


async def test_earlier_tasks_do_not_share_their_device(pool: Pool) -> None:
    """A task of an earlier version says nothing about it."""
    async with pool.services.database.transaction() as connection:
        added = await accounts.add(connection, Wallet("carol").address, {Role.CONSUMER})
    assert added is not None
    node = await pool.offer()
    shares = (
        'UPDATE devices SET description = description || \'{"terms": {"shares_accounts": true}}\''
    )
    await pool.sql(shares)
    part: dict[str, Any] = {"device_milli": 400, "shares_device": True}
    first_task = await pool.submit(**part)
    second_task = await submit.submit(pool.services, added.id, request(**part), None)
    assert await apply_assignments(pool.services, pool.leads, [_share(node, first_task)])
    silent = "UPDATE tasks SET requirements = requirements - 'shares_device' WHERE id = $1"
    await pool.sql(silent, first_task.id)
    assert not await apply_assignments(pool.services, pool.leads, [_share(node, second_task)])
    agrees = "UPDATE tasks SET requirements = requirements || '{\"shares_device\": true}'"
    await pool.sql(agrees)
    assert await apply_assignments(pool.services, pool.leads, [_share(node, second_task)])


async def test_a_task_that_joins_a_queue_at_an_end_is_locked_before_the_node(pool: Pool) -> None:
    """The share is passed on to it after the node is locked: too late to wait for it then."""
    node = (await pool.offer()).node_id
    for _ in range(2):
        await pool.submit(expected_seconds=0.1)
    await pool.plan()
    holder, joined = await pool.fetch(node)
    assert joined.line == holder.attempt_id
    await pool.report(node, Started(lease_of(holder)))
    row = "SELECT FROM attempts WHERE id = $1 FOR UPDATE"
    database = pool.services.database
    async with database.transaction() as before, database.transaction() as other:
        await other.execute(NODE)
        # As a grant does: it locks the holder, and adds one to its line.
        await before.execute(row, holder.attempt_id)
        await pool.sql("UPDATE attempts SET line = 'none' WHERE id = $1", joined.attempt_id)
        running = asyncio.ensure_future(pool.finish(holder))
        await until_it_waits(pool, running)
        await before.execute(
            "UPDATE attempts SET line = $1 WHERE id = $2", holder.attempt_id, joined.attempt_id
        )
        await before.execute("COMMIT")
        await _until_it_waits_for(pool, running, "nodes")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await before.execute(f"{row} NOWAIT", joined.attempt_id)
        await before.execute("BEGIN")
    await running
    await pool.check()


async def test_a_submission_waits_for_its_turn_without_holding_a_task(pool: Pool) -> None:
    settings = replace(pool.services.settings, quota_queued_tasks=9)
    pool.services = replace(pool.services, settings=settings)
    first = await pool.submit()
    async with pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM accounts FOR UPDATE")
        running = asyncio.ensure_future(pool.submit(after=(first.id,)))
        await until_it_waits(pool, running)
        await connection.execute(f"{TASK} NOWAIT")
    assert (await running).state is TaskState.QUEUED


def _share(node: NodeRegistered, task: TaskView) -> Assignment:
    return Assignment(
        task_id=task.id,
        node_id=node.node_id,
        shares=(DeviceShare(node.device_ids[0], 400, GIB),),
        requirements=task.requirements,
        limits=task.limits,
        price_micro_per_hour=0,
        hold_micro=0,
        items=None,
    )


async def _run_out(pool: Pool) -> None:
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")


async def _adopt(pool: Pool, node_id: NodeId, grant: Grant) -> bool:
    async with pool.services.database.transaction() as connection:
        return await readopt(pool.services, connection, grant.attempt_id, node_id)


@pytest.mark.parametrize(
    ("locking", "free"),
    [(TASK, ATTEMPT), (ATTEMPT, NODE), (NODE, DEVICE), (DEVICE, BALANCE)],
    ids=["task first", "then attempt", "then node", "then device"],
)
@pytest.mark.parametrize("is_lost", [False, True], ids=["expire", "adopt"])
async def test_expiring_and_readopting_lock_rows_in_order(
    pool: Pool, is_lost: bool, locking: str, free: str
) -> None:
    await pool.give(pool.alice, 10**12)
    node_id, grant = await pool.started(price_micro_per_hour=1000, run_seconds=10.0)
    await _run_out(pool)
    if is_lost:
        assert await expire.expire_once(pool.services, pool.leads) == 1
    async with pool.services.database.transaction() as connection:
        await connection.execute(locking)
        stage = _adopt(pool, node_id, grant) if is_lost else _expire(pool)
        running = asyncio.ensure_future(stage)
        await until_it_waits(pool, running)
        await connection.execute(f"{free} NOWAIT")
    assert await running
    await pool.check()


async def _expire(pool: Pool) -> bool:
    return await expire.expire_once(pool.services, pool.leads) == 1


async def test_dependents_are_locked_before_their_dependencies(pool: Pool) -> None:
    first = await pool.submit()
    last = await pool.submit(after=(first.id,))
    await cancel.cancel(pool.services, pool.alice, first.id)
    async with pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM tasks WHERE id = $1 FOR UPDATE", last.id)
        running = asyncio.ensure_future(
            dependents.resolve_dependencies_once(pool.services, pool.leads)
        )
        await until_it_waits(pool, running)
        await connection.execute("SELECT FROM dependencies FOR UPDATE NOWAIT")
        await connection.execute("SELECT FROM ended_tasks FOR UPDATE NOWAIT")
    assert await running == 1
    await pool.check()


async def until_it_waits(pool: Pool, running: "asyncio.Future[Any]") -> None:
    """Until a connection of this database waits for a lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    while not await pool.sql(waiting):
        assert not running.done(), "it did not run into the row at all"


async def _until_it_waits_for(pool: Pool, running: "asyncio.Future[Any]", table: str) -> None:
    """Until a connection waits for a row while it updates or locks this table."""
    waiting = (
        "SELECT count(*) FROM pg_locks AS held JOIN pg_locks AS awaited USING (pid)"
        " WHERE NOT awaited.granted AND held.relation = $1::regclass"
        " AND held.mode IN ('RowShareLock', 'RowExclusiveLock')"
    )
    while not await pool.sql(waiting, table):
        assert not running.done(), "it did not run into the row at all"
