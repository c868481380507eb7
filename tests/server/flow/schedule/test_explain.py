"""Why does it wait? Any instance may be asked; only the leader knows the queue."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from potluck.model.device import Availability
from potluck.model.error import NotFound
from potluck.model.ids import NodeId, TaskId
from potluck.model.node import NodeState
from potluck.model.task import EndReason, TaskState
from potluck.server import topics
from potluck.server.flow.notify.task_stream import view
from potluck.server.flow.schedule.explain_node import explain_node
from potluck.server.flow.schedule.explain_task import answer_once, explain
from potluck.server.flow.settle import cancel
from potluck.server.leader.leader_rpc import LeaderQuestion
from potluck.server.leader.memory import LeaderMemory
from potluck.store.tasks import tasks
from potluck.wire import codec
from potluck.wire.consumer import Explanation
from potluck.wire.own_machines import NodeExplanation
from tests.server.flow.leader import leading
from tests.server.flow.pool import Pool, done
from tests.server.flow.schedule.arrays import failed, give, succeeded
from tests.server.flow.submit.test_streams import open_stream


async def explained(pool: Pool, task_id: TaskId) -> Explanation:
    async with leading(pool) as memory:
        memory.known.scheduler.plan(memory.now, 10)
        return await explain(pool.services, pool.alice, task_id)


async def test_refusals_are_counted_and_what_would_help_is_said(pool: Pool) -> None:
    for _ in range(3):
        await pool.offer()
    task = await pool.submit(device_model="H100")
    explanation = await explained(pool, task.id)
    assert (explanation.state, explanation.nodes) == (TaskState.QUEUED, 3)
    assert explanation.position is None, "whom nobody can ever take is not the next"
    assert [(refusal.code, refusal.nodes) for refusal in explanation.refusals] == [
        ("device_model", 3)
    ]
    assert explanation.changes and explanation.at is not None


async def test_the_place_in_the_queue_counts_those_before(pool: Pool) -> None:
    ids = [(await pool.submit(device_model="H100")).id for _ in range(5)]
    assert (await explained(pool, ids[-1])).position == 5


async def test_running_and_ended_tasks_do_not_wait(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit()
    await pool.plan()
    explanation = await explain(pool.services, pool.alice, task.id)
    assert explanation.sentence.startswith("It does not wait") and explanation.position is None
    await pool.fetch(node.node_id)
    await cancel.cancel(pool.services, pool.alice, task.id)
    assert "cancelled" in (await explain(pool.services, pool.alice, task.id)).sentence


async def test_a_delayed_task_gets_that_explanation(pool: Pool) -> None:
    task = await pool.submit(delay_seconds=3600.0)
    explanation = await explain(pool.services, pool.alice, task.id)
    assert "must not start before" in explanation.sentence


async def test_without_a_leader_the_answer_says_so(pool: Pool) -> None:
    settings = replace(pool.services.settings, answer_seconds=0.2)
    pool.services = replace(pool.services, settings=settings)
    task = await pool.submit()
    explanation = await explain(pool.services, pool.alice, task.id)
    assert "is not answering" in explanation.sentence and explanation.position is None


async def test_a_leader_that_is_still_loading_names_no_place(pool: Pool) -> None:
    task = await pool.submit()
    async with leading(pool) as memory:
        memory.is_loaded = False
        assert (await explain(pool.services, pool.alice, task.id)).position is None


async def test_another_accounts_task_is_not_found(pool: Pool) -> None:
    task = await pool.submit()
    with pytest.raises(NotFound):
        await explain(pool.services, pool.bob, task.id)


async def test_an_array_is_explained_also_when_its_reason_is_known(pool: Pool) -> None:
    await pool.offer()
    task = await pool.submit(device_model="H100", items=10)
    await pool.plan()  # publishes the reason
    explanation = await explained(pool, task.id)
    assert explanation.nodes == 1
    assert [refusal.code for refusal in explanation.refusals] == ["device_model"]


async def test_an_item_is_explained_as_it_is_itself(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit(items=10)
    grant = await give(pool, node, task.id, 0, 2)
    await pool.report(node.node_id, succeeded(grant, 0))
    async with leading(pool) as memory:
        memory.known.scheduler.plan(memory.now, 10)
        explanation = await explain(pool.services, pool.alice, task.id, 0)
        waiting = await explain(pool.services, pool.alice, task.id, 9)
    assert (explanation.task_id, explanation.state) == (f"{task.id}#0", TaskState.SUCCEEDED)
    assert explanation.sentence == "It does not wait: it has succeeded."
    assert (waiting.task_id, waiting.state) == (f"{task.id}#9", TaskState.QUEUED)
    assert "8 wait" in waiting.sentence


async def test_a_running_array_shows_its_progress(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit(items=10)
    grant = await give(pool, node, task.id, 0, 2)
    await pool.report(node.node_id, succeeded(grant, 0))
    explanation = await explained(pool, task.id)
    assert explanation.sentence == (
        "1 of 10 items is done, 1 runs, 8 wait. 1 node has its devices in use."
    )
    assert (explanation.position, explanation.estimated_start) == (None, None), "it need not start"
    await pool.sql("UPDATE tasks SET pending = '{}'")
    explanation = await explained(pool, task.id)
    assert explanation.sentence == "It does not wait: 1 of 10 items is done, 9 run."


async def test_an_array_that_succeeded_says_how_many_items_failed(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit(items=2, allow_failures=1, max_attempts=1)
    grant = await give(pool, node, task.id, 0, 2)
    await pool.report(node.node_id, succeeded(grant, 0), failed(grant, 1), done(grant))
    explanation = await explained(pool, task.id)
    assert explanation.sentence == "It does not wait: it has succeeded, but 1 of its items failed."


async def test_a_reason_is_not_said_twice(pool: Pool) -> None:
    task = await pool.submit()
    await cancel.cancel(pool.services, pool.alice, task.id)
    explanation = await explain(pool.services, pool.alice, task.id)
    assert explanation.sentence == "It does not wait: it has ended, cancelled."


async def test_many_explanations_leave_the_leader_half_of_its_time(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer takes a while; what nobody waits for any more is not answered."""
    settings = replace(pool.services.settings, answer_seconds=0.2)
    pool.services = replace(pool.services, settings=settings)
    memory = LeaderMemory(pool.services)
    slow = memory.known.scheduler.explain

    def take_a_while(task_id: TaskId, now: float) -> None:
        time.sleep(0.02)
        assert slow(task_id, now) is None

    monkeypatch.setattr(memory.known.scheduler, "explain", take_a_while)
    for number in range(100):
        for caller in ("one", "other"):
            question = LeaderQuestion(f"{caller}-{number}", TaskId(f"task_{number}"))
            await pool.services.live.post(topics.QUESTIONS, codec.encode_json(question))
    idle = 0.0

    async def other_work() -> None:
        nonlocal idle
        while True:
            await asyncio.sleep(0.001)
            idle += 0.001

    working = asyncio.create_task(other_work())
    assert 1 <= await answer_once(pool.services, memory) <= 10
    working.cancel()
    assert idle >= 0.02
    for caller in ("one", "other"):
        assert await pool.services.live.get(topics.answer(f"{caller}-0")) is not None


async def test_an_array_that_was_lost_long_ago_has_its_lines_reason(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has more attempts than are shown; all of them tell the name of its line."""
    monkeypatch.setattr(tasks, "_NEWEST_ATTEMPTS", 1)
    bad, good = await pool.offer(), await pool.offer()
    task = await pool.submit(items=3)
    lost_grant = await give(pool, bad, task.id, 0, 1)
    await pool.report(bad.node_id, done(lost_grant, EndReason.NODE_RESTARTED))
    grant = await give(pool, good, task.id, 1, 2)
    await pool.report(good.node_id, succeeded(grant, 1), done(grant))
    await pool.sql("UPDATE nodes SET state = 'left'")
    await pool.plan()
    task_view = await view(pool.services, pool.alice, task.id)
    assert len(task_view.attempts) == 1 and task_view.waiting is not None


async def node_explained(pool: Pool, node_id: NodeId) -> NodeExplanation:
    async with leading(pool) as memory:
        memory.known.scheduler.plan(memory.now, 10)
        return await explain_node(pool.services, pool.bob, node_id)


async def test_why_a_node_gets_no_work(pool: Pool) -> None:
    """The scheduler's own reasons, and what its devices do."""
    await pool.give(pool.alice, 10_000_000)
    node = await pool.offer(price_micro_per_hour=500_000)
    for _ in range(2):
        await pool.submit(max_price_micro_per_hour=300_000)
    explanation = await node_explained(pool, node.node_id)
    assert explanation.sentence == "2 waiting tasks pay at most 0.30 an hour, but it costs 0.50."
    assert [(reason.code, reason.tasks) for reason in explanation.reasons] == [("price", 2)]
    assert explanation.changes == [
        "At a price of 0.30 an hour for a device, it could take 2 of the waiting tasks."
    ]
    assert (explanation.state, explanation.waiting, explanation.running) == (NodeState.ONLINE, 2, 0)
    assert explanation.at is not None and explanation.away == []
    await pool.sql("UPDATE devices SET availability = 'in_use', why = 'somebody types'")
    explanation = await node_explained(pool, node.node_id)
    assert explanation.sentence == "It takes no new work now: its owner is using it."
    (absent_device,) = explanation.away
    assert (absent_device.availability, absent_device.why) == (
        Availability.IN_USE,
        "somebody types",
    )


NOT_PLANNED_WITH = [
    ("UPDATE nodes SET state = 'silent'", "It has been silent for a while"),
    ("UPDATE nodes SET state = 'left'", "It has left the pool"),
    ("UPDATE nodes SET is_polling = false", "It has not polled for work since it came back, or"),
    ("UPDATE devices SET is_present = false", "It has no device"),
    ("UPDATE devices SET standing = 'foreign'", "All of its devices are bound"),
]


@pytest.mark.parametrize(("change", "sentence"), NOT_PLANNED_WITH)
async def test_a_node_that_is_not_planned_with_is_told_of_without_a_leader(
    pool: Pool, change: str, sentence: str
) -> None:
    node_id, _ = await pool.started()
    await pool.sql(change)
    explanation = await explain_node(pool.services, pool.bob, node_id)
    assert explanation.sentence.startswith(sentence) and explanation.running == 1


async def test_a_node_is_explained_to_its_owner_alone(pool: Pool) -> None:
    node = await pool.offer()
    with pytest.raises(NotFound):
        await explain_node(pool.services, pool.alice, node.node_id)


async def test_without_a_leader_the_answer_about_a_node_says_so(pool: Pool) -> None:
    node = await pool.offer()
    explanation = await explain_node(pool.services, pool.bob, node.node_id)
    assert "is not answering" in explanation.sentence and explanation.at is None


async def test_a_call_stream_between_its_calls_waits_for_calls(pool: Pool) -> None:
    await pool.offer()
    task = await open_stream(pool, b"0", b"1")
    await pool.sql("UPDATE tasks SET pending = '{}', items_succeeded = 2")
    explanation = await explained(pool, task.id)
    assert explanation.sentence == (
        "It waits for calls: its 2 calls have ended. Until the next one it has no node and costs"
        " nothing."
    )
    assert (explanation.nodes, explanation.changes) == (0, [])
