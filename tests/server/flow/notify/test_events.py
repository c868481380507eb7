"""Every change of a task's, an attempt's and a node's state is told, and nothing else is."""

from typing import Any

import msgspec

from potluck.model.ids import NodeId, TaskId
from potluck.model.task import EndReason
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import lease
from potluck.server.flow.schedule import dependents
from potluck.server.flow.settle import cancel
from potluck.wire.provider import Grant, Preparing, Started
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.schedule.arrays import assign, place, succeeded


async def test_events_of_a_task_reach_from_the_queue_to_its_end(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit(max_attempts=2)
    grant = await _granted(pool, node.node_id, task.id, await place(pool, node, task.id))
    held_lease = lease_of(grant)
    # Each is told once, however often it is reported.
    for change in (
        Preparing(held_lease),
        Preparing(held_lease),
        Started(held_lease),
        Started(held_lease),
    ):
        await pool.report(node.node_id, change)
    failure = done(grant, EndReason.EXIT_STATUS, exit_code=1)
    await pool.report(node.node_id, failure, failure)
    second_grant = await _granted(pool, node.node_id, task.id, await place(pool, node, task.id))
    await pool.report(node.node_id, Started(lease_of(second_grant)), done(second_grant))
    assert await _told(pool, task.id) == [
        ("task.queued", "queued", None),
        ("attempt.granted", "granted", None),
        ("task.assigned", "assigned", None),
        ("attempt.preparing", "preparing", None),
        ("attempt.running", "running", None),
        ("task.running", "running", None),
        ("attempt.ended", "failed", "exit_status"),
        ("task.queued", "queued", "exit_status"),
        ("attempt.granted", "granted", None),
        ("task.assigned", "assigned", None),
        ("attempt.running", "running", None),
        ("task.running", "running", None),
        ("attempt.ended", "succeeded", "completed"),
        ("task.finished", "succeeded", "completed"),
    ]
    event_count = await pool.sql(
        "SELECT count(*) FROM events WHERE kind LIKE 'attempt.%' AND node_id = $1"
        " AND data->>'node_id' = $1 AND data->>'attempt_id' IN ($2, $3)",
        node.node_id,
        grant.attempt_id,
        second_grant.attempt_id,
    )
    assert event_count == 7


async def test_a_readopted_attempt_is_reported(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")
    await expire.expire_once(pool.services, pool.leads)
    await pool.report(node_id, done(grant))
    assert (await _told(pool, grant.task_id))[-6:] == [
        ("attempt.ended", "lost", "lease_expired"),
        ("task.queued", "queued", "lease_expired"),
        ("attempt.running", "running", None),
        ("task.running", "running", None),
        ("attempt.ended", "succeeded", "completed"),
        ("task.finished", "succeeded", "completed"),
    ]


async def test_events_of_ranges_are_single_and_of_their_array_one(pool: Pool) -> None:
    first_node, other = await pool.offer(), await pool.offer()
    task = await pool.submit(items=4)
    first = await _granted(
        pool, first_node.node_id, task.id, await assign(pool, first_node, task.id, 0, 2)
    )
    await pool.report(first_node.node_id, Started(lease_of(first)))
    second = await _granted(pool, other.node_id, task.id, await assign(pool, other, task.id, 2, 4))
    await pool.report(other.node_id, Started(lease_of(second)), succeeded(second, 2, 3))
    await pool.report(other.node_id, done(second))
    await cancel.cancel(pool.services, pool.alice, task.id)
    assert await _told(pool, task.id) == [
        ("task.queued", "queued", None),
        ("attempt.granted", "granted", None),
        ("task.assigned", "assigned", None),
        ("attempt.running", "running", None),
        ("task.running", "running", None),
        ("attempt.granted", "granted", None),
        ("attempt.running", "running", None),
        ("attempt.ended", "succeeded", "completed"),
        ("attempt.ended", "cancelled", "cancelled"),
        ("task.finished", "cancelled", "cancelled"),
    ]


async def test_an_end_in_the_queue_has_its_reason(pool: Pool) -> None:
    late_task = await pool.submit(start_within_seconds=60.0)
    after = await pool.submit(after=(late_task.id,))
    await pool.sql("UPDATE tasks SET start_before = now() WHERE id = $1", late_task.id)
    await expire.expire_once(pool.services, pool.leads)
    await dependents.resolve_dependencies_once(pool.services, pool.leads)
    cancelled_task = await pool.submit()
    await cancel.cancel(pool.services, pool.alice, cancelled_task.id)
    ends = [
        (await _told(pool, task_id))[-1] for task_id in (late_task.id, after.id, cancelled_task.id)
    ]
    assert ends == [
        ("task.finished", "expired", "deadline"),
        ("task.finished", "cancelled", "dependency"),
        ("task.finished", "cancelled", "cancelled"),
    ]


async def test_events_of_a_node_from_registration_to_leaving(pool: Pool) -> None:
    node = await pool.offer()
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '1 hour'")
    await pool.sql("UPDATE leader SET forgiven_beat_at = (SELECT max(heartbeat_at) FROM nodes)")
    await expire.expire_once(pool.services, pool.leads)
    await pool.beat(node.node_id)
    await lease.leave(pool.services, pool.bobs, node.node_id)
    kinds = await pool.sql(
        "SELECT array_agg(kind ORDER BY id) FROM events WHERE task_id IS NULL AND node_id = $1",
        node.node_id,
    )
    assert kinds == ["node.online", "node.silent", "node.online", "node.left"]


async def _granted(pool: Pool, node_id: NodeId, task_id: TaskId, is_placed: bool) -> Grant:
    assert is_placed
    (grant,) = await pool.fetch(node_id)
    assert grant.task_id == task_id
    return grant


async def _told(pool: Pool, task_id: TaskId) -> list[tuple[str, str, str | None]]:
    statement = "SELECT kind, data FROM events WHERE task_id = $1 ORDER BY id"
    async with pool.services.database.transaction() as connection:
        rows = await connection.fetch(statement, task_id)
    data: list[dict[str, Any]] = [msgspec.json.decode(row["data"]) for row in rows]
    return [
        (row["kind"], event_data["state"], event_data.get("reason"))
        for row, event_data in zip(rows, data, strict=True)
    ]
