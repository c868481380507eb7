"""A cordoned node: no new work, running work finishes, and everyone concerned sees why."""

import pytest

from potluck.model.error import Conflict, NotFound
from potluck.model.ids import NodeId
from potluck.model.task import EndReason, TaskState
from potluck.server.accounts import administration
from potluck.server.flow.schedule.explain_node import explain_node
from potluck.server.flow.schedule.explain_task import explain
from potluck.store.nodes import nodes
from tests.server.flow.leader import leading
from tests.server.flow.pool import Pool


async def test_running_work_finishes_and_nothing_new_is_assigned(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await administration.cordon(pool.services, pool.alice, node_id, "its disk is failing")
    await pool.finish(grant)
    assert (await pool.task(grant.task_id)).reason is EndReason.COMPLETED
    waiting = await pool.submit()
    assert not (await pool.plan()).assigned
    async with leading(pool) as memory:
        memory.known.scheduler.plan(memory.now, 10)
        explanation = await explain(pool.services, pool.alice, waiting.id)
        assert [refusal.code for refusal in explanation.refusals] == ["cordoned"]
        owned = await explain_node(pool.services, pool.bob, node_id)
        assert "cordoned it (its disk is failing)" in owned.sentence
    async with pool.services.database.transaction() as connection:
        (node_view,), _ = await nodes.page(connection, pool.alice, None, 10)
    assert node_view.cordoned_at is not None and node_view.cordoned_for == "its disk is failing"
    await administration.uncordon(pool.services, pool.alice, node_id)
    assert (await pool.plan()).assigned
    assert (await pool.task(waiting.id)).state is TaskState.ASSIGNED


async def test_a_leader_learns_of_a_cordon_without_reading_everything_again(pool: Pool) -> None:
    node = await pool.offer()
    async with leading(pool) as memory:
        await administration.cordon(pool.services, pool.alice, node.node_id, "")
        await pool.submit()
        await memory.catch_up()
        assert not memory.known.scheduler.plan(memory.now, 10).assignments


async def test_no_node_no_cordon(pool: Pool) -> None:
    with pytest.raises(NotFound):
        await administration.cordon(pool.services, pool.alice, NodeId("node_none"), "")


async def test_an_admin_removes_a_silent_node_of_somebody_else(pool: Pool) -> None:
    """Its task runs elsewhere, and it is welcome if it returns. One that is online stays."""
    node_id, grant = await pool.started()
    with pytest.raises(Conflict, match="is online"):
        await administration.remove_node(pool.services, pool.alice, node_id, "")
    await pool.sql("UPDATE nodes SET state = 'silent'")
    await administration.remove_node(pool.services, pool.alice, node_id, "sold")
    assert await pool.sql("SELECT state FROM nodes") == "left"
    assert await pool.sql("SELECT count(*) FROM bindings") == 0
    assert (await pool.task(grant.task_id)).state is TaskState.QUEUED
    with pytest.raises(NotFound):
        await administration.remove_node(pool.services, pool.alice, node_id, "again")
    assert await pool.sql("SELECT count(*) FROM audit WHERE kind = 'node_removed'") == 1
    await pool.check()
    await pool.offer()
    assert await pool.sql("SELECT count(*) FROM nodes WHERE state = 'online'") == 1
