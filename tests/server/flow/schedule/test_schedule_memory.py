"""The leader's memory is what the database says, whatever happens in which order."""

import asyncio

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from potluck.decide.types import Assignment, DeviceShare
from potluck.model.error import Unavailable
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, ItemRange, TaskState
from potluck.server.flow.notify import task_stream
from potluck.server.flow.schedule import schedule
from potluck.server.flow.settle import cancel
from potluck.server.leader import waiting_reasons
from potluck.server.leader.memory import LeaderMemory
from potluck.server.leader.memory_audit import MemoryAudit
from potluck.server.leader.scheduler_input import DelayedTasks
from potluck.store.attempts.assign import PlannedAttempt, assign
from potluck.store.new_ids import new_attempt_id
from potluck.store.scheduler import scheduler_feed
from potluck.wire.provider import Started
from tests.server.flow.pool import Pool, done, lease_of
from tests.server.flow.schedule.arrays import succeeded


async def begun(pool: Pool) -> LeaderMemory:
    memory = LeaderMemory(pool.services)
    await memory.begin()
    return memory


async def placed(pool: Pool, memory: LeaderMemory) -> list[TaskId]:
    """What the leader places until there is nothing more to place."""
    task_ids: list[TaskId] = []
    while True:
        slice_ = await schedule.schedule_once(pool.services, pool.leads, memory)
        task_ids += [assignment.task_id for assignment in slice_.assigned]
        if slice_.is_complete:
            return task_ids


async def swept(pool: Pool, memory: LeaderMemory) -> int:
    """How many differences a comparison of everything finds."""
    await memory.catch_up()
    before = differences(pool)
    sweep = MemoryAudit(pool.services, memory)
    while not sweep.is_over:
        await sweep.run_once()
    return int(differences(pool) - before)


def differences(pool: Pool) -> float:
    return pool.services.metrics.registry.value("potluck_memory_differences_total") or 0.0


async def waiting(pool: Pool) -> set[str]:
    rows = (
        "SELECT array_agg(id) FROM tasks WHERE is_waiting AND coalesce(not_before <= now(), true)"
    )
    return set(await pool.sql(rows) or ())


async def test_a_task_committed_late_is_not_missed(pool: Pool) -> None:
    """The transaction that began first commits last, and a reader comes in between."""
    memory = await begun(pool)
    late_task = await pool.submit()
    early = await pool.submit()
    await memory.catch_up()
    async with pool.services.database.transaction() as connection:
        await connection.execute("UPDATE tasks SET failures = 1 WHERE id = $1", late_task.id)
        await cancel.cancel(pool.services, pool.alice, early.id)
        await memory.catch_up()
        assert memory.known.scheduler.task_ids() == [late_task.id]
        await connection.execute(
            "UPDATE tasks SET not_before = now() + interval '1 hour' WHERE id = $1", late_task.id
        )
    await memory.catch_up()
    assert memory.known.scheduler.task_ids() == []


async def test_a_long_transaction_of_others_delays_nothing(pool: Pool) -> None:
    memory = await begun(pool)
    async with pool.services.database.transaction() as connection:
        await connection.execute("SELECT pg_current_xact_id()")
        for _ in range(3):
            task = await pool.submit()
            await memory.catch_up()
            assert memory.known.scheduler.task(task.id) is not None


async def test_a_page_at_a_time_reads_everything_once_it_changed(pool: Pool) -> None:
    settings = replace(pool.services.settings, most_tasks_per_page=3)
    pool.services = replace(pool.services, settings=settings)
    memory = await begun(pool)
    for _ in range(10):
        await pool.submit()
    await pool.sql("UPDATE tasks SET failures = 1")  # all by one transaction
    await memory.catch_up()
    assert set(memory.known.scheduler.task_ids()) == await waiting(pool)


async def test_heads_come_first_and_the_rest_behind(pool: Pool) -> None:
    settings = replace(pool.services.settings, most_tasks_per_page=3)
    pool.services = replace(pool.services, settings=settings)
    low = [(await pool.submit(priority=-1)).id for _ in range(5)]
    high = (await pool.submit(priority=7)).id
    async with pool.services.database.transaction() as connection:
        (account,) = await scheduler_feed.waiting_accounts(connection)
        heads = await LeaderMemory(pool.services).tasks.heads(connection, [account], 2)
    assert [head.id for head in heads] == [high, low[0]]
    memory = LeaderMemory(pool.services)
    while not memory.is_loaded:
        await memory.load_more()
    assert set(memory.known.scheduler.task_ids()) == {high, *low}


async def test_a_task_whose_time_comes_is_placed_by_the_databases_clock(pool: Pool) -> None:
    await pool.offer()
    task = await pool.submit(delay_seconds=0.3)
    memory = await begun(pool)
    assert await placed(pool, memory) == []
    due = memory.known.next_due
    assert due is not None and 0 < due - memory.now <= 0.3
    await asyncio.sleep(due - memory.now)
    assert await placed(pool, memory) == [task.id]


async def test_a_task_over_the_quota_is_placed_when_the_quota_grows(pool: Pool) -> None:
    await pool.offer(devices=2)
    await pool.sql("UPDATE accounts SET max_running_devices = 1")
    first, second = [(await pool.submit()).id for _ in range(2)]
    memory = await begun(pool)
    assert await placed(pool, memory) == [first]
    await pool.sql("UPDATE accounts SET max_running_devices = 2")
    assert await placed(pool, memory) == [second]


async def test_a_freed_device_is_assigned_again(pool: Pool) -> None:
    node = await pool.offer()
    first, second = [(await pool.submit()).id for _ in range(2)]
    memory = await begun(pool)
    assert await placed(pool, memory) == [first]
    assert await placed(pool, memory) == []
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, done(grant))
    assert await placed(pool, memory) == [second]
    await pool.check()


async def test_news_do_not_go_through_all_that_wait_for_others(pool: Pool) -> None:
    """A million may wait for one task, and one that nobody waits for may have just ended."""
    first, *others = [(await pool.submit()).id for _ in range(3)]
    await pool.sql(
        "INSERT INTO tasks (id, account_id, name, kind, sealed_spec, requirements, limits,"
        " request_hash, priority, max_attempts, waits_for)"
        " SELECT 'task_' || number, account_id, name, kind, sealed_spec, requirements, limits,"
        " request_hash, priority, max_attempts, 1 FROM tasks, generate_series(1, 3000) AS number"
        " WHERE id = $1",
        first,
    )
    await pool.sql(
        "INSERT INTO dependencies (task_id, after_id) SELECT id, $1 FROM tasks WHERE waits_for = 1",
        first,
    )
    await pool.sql(
        "INSERT INTO ended_tasks (after_id, outcome) SELECT unnest($1::text[]), 'succeeded'", others
    )
    async with pool.services.database.transaction() as connection:
        now = await connection.fetchval("SELECT pg_current_snapshot()::text")
        statement, *values = scheduler_feed._sql.news(snapshot=now, limit=100)
        plan = await connection.fetch(f"EXPLAIN (ANALYZE) {statement}", *values)
    plan_lines = [line for (line,) in plan if "on dependencies" in line]
    assert plan_lines and all("rows=0" in line.partition("actual")[2] for line in plan_lines), (
        plan_lines
    )


async def test_a_node_that_registered_with_an_older_server_gets_work(pool: Pool) -> None:
    """It did not say what only newer ones are asked for."""
    await pool.offer()
    await pool.sql("UPDATE nodes SET description = description - 'python_version'")
    await pool.sql("UPDATE devices SET description = description - 'vendor'")
    memory = await begun(pool)
    task = await pool.submit()
    assert await placed(pool, memory) == [task.id]


async def test_a_node_that_failed_a_task_is_not_asked_again(pool: Pool) -> None:
    bad = await pool.offer()
    task = await pool.submit(max_attempts=3)
    memory = await begun(pool)
    assert await placed(pool, memory) == [task.id]
    (grant,) = await pool.fetch(bad.node_id)
    await pool.report(bad.node_id, done(grant, EndReason.EXIT_STATUS, exit_code=1))
    good = await pool.offer()
    done_with = await schedule.schedule_once(pool.services, pool.leads, memory)
    assert [assignment.node_id for assignment in done_with.assigned] == [good.node_id]


async def test_a_difference_is_mended_counted_and_logged(
    pool: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    await pool.offer()
    tasks = [(await pool.submit(device_model="none such")).id for _ in range(5)]
    memory = await begun(pool)
    assert await swept(pool, memory) == 0
    missed, ghost = tasks[0], memory.known.scheduler.task(tasks[1])
    assert ghost is not None
    memory.known.scheduler.drop_task(missed)
    await cancel.cancel(pool.services, pool.alice, ghost.id)
    await memory.catch_up()
    memory.known.scheduler.put_task(ghost)
    (node_id,) = memory.known.nodes
    free = memory.known.nodes[node_id].node
    assert free is not None
    taller = replace(free, free_cores=999)
    taller_now = replace(memory.known.nodes[node_id], node=taller)
    memory.known.put_nodes([taller_now], memory.now)
    memory.known.put_accounts([replace(memory.known.accounts[pool.alice], weight=7.0)])
    assert await swept(pool, memory) == 4
    assert capsys.readouterr().out.count("differed from the database") == 4
    assert set(memory.known.scheduler.task_ids()) == {*tasks} - {ghost.id}
    assert await swept(pool, memory) == 0


async def test_concurrent_changes_do_not_affect_the_result(pool: Pool) -> None:
    node = await pool.offer(devices=4)
    for _ in range(20):
        await pool.submit()
    memory = await begun(pool)
    for _ in range(5):
        await placed(pool, memory)
        for grant in await pool.fetch(node.node_id):
            await pool.report(node.node_id, done(grant))
        sweep = MemoryAudit(pool.services, memory)  # as far as its position, which is behind by now
        while not sweep.is_over:
            await sweep.run_once()
        assert differences(pool) == 0
    await pool.check()


async def test_a_batch_that_fails_is_tried_one_by_one(pool: Pool) -> None:
    """Each of the two is affordable by itself, and both were when they were planned."""
    await pool.give(pool.alice, 200_000)
    await pool.offer(devices=2, price_micro_per_hour=3_600_000)
    tasks = [(await pool.submit(run_seconds=100.0)).id for _ in range(2)]
    memory = await begun(pool)
    plan = memory.known.scheduler.plan(memory.now, 10)
    assert len(plan.assignments) == 2
    await pool.give(pool.bob, 1)
    await pool.sql("UPDATE balances SET available_micro = 150000 WHERE account_id = $1", pool.alice)
    came_true = await schedule._apply(pool.services, pool.leads, memory, plan.assignments)
    assert len(came_true) == 1
    states = {(await pool.task(task_id)).state for task_id in tasks}
    assert states == {TaskState.ASSIGNED, TaskState.QUEUED}
    assert (await pool.balance(pool.alice)).held_micro == 100_000


async def test_a_refused_assignment_is_read_again_and_placed(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    await pool.offer(price_micro_per_hour=10)
    task = await pool.submit()
    memory = await begun(pool)
    plan = memory.known.scheduler.plan(memory.now, 10)
    await pool.sql("UPDATE devices SET price_micro_per_hour = 20")
    assert await schedule._apply(pool.services, pool.leads, memory, plan.assignments) == []
    assert await placed(pool, memory) == [task.id]


async def test_a_task_that_is_refused_repeatedly_is_set_aside(pool: Pool) -> None:
    """So that a plan that can never hold does not keep the leader from everything else."""
    settings = replace(pool.services.settings, schedule_poll_seconds=3.0)
    pool.services = replace(pool.services, settings=settings)
    await pool.offer()
    task = await pool.submit()
    await pool.sql("ALTER TABLE attempts ADD CONSTRAINT never CHECK (false) NOT VALID")
    memory = await begun(pool)
    with capture_logs() as logs:
        assert await placed(pool, memory) == []
    assert "a plan was refused repeatedly" in {log_line["event"] for log_line in logs}
    await pool.sql("ALTER TABLE attempts DROP CONSTRAINT never")
    assert await swept(pool, memory) == 0
    due = memory.known.next_due
    assert due is not None
    await asyncio.sleep(max(0.0, due - memory.now))
    assert await placed(pool, memory) == [task.id]
    assert await swept(pool, memory) == 0


async def test_an_array_that_changes_before_each_refusal_is_not_set_aside(pool: Pool) -> None:
    """Each was a race: another of its ranges had ended and delayed the array meanwhile."""
    task = await pool.submit(items=10)
    memory = await begun(pool)
    await memory.catch_up()

    async def refuse() -> bool:
        is_set_aside = memory.known.refuse(task.id, memory.now + 3600)
        await memory.read_tasks([task.id])
        return is_set_aside

    delay = "UPDATE tasks SET not_before = now() - interval '1 s' WHERE id = $1"
    assert not await refuse()
    for _ in range(5):
        await pool.sql(delay, task.id)
        assert not await refuse()
    assert [await refuse() for _ in range(3)] == [False, False, True]


async def test_a_round_that_is_cut_off_leaves_nothing_behind_in_memory(pool: Pool) -> None:
    await pool.offer()
    task = await pool.submit()
    memory = await begun(pool)
    end_waiting = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    async with pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM nodes FOR UPDATE")
        running = asyncio.ensure_future(schedule.schedule_once(pool.services, pool.leads, memory))
        while not await pool.sql(end_waiting):
            await asyncio.sleep(0.01)
        with pytest.raises(Unavailable):
            await running
    assert await placed(pool, memory) == [task.id]
    assert await swept(pool, memory) == 0
    await pool.check()


async def test_granted_ranges_of_an_array_are_no_longer_pending(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit(items=10)
    memory = await begun(pool)
    await memory.catch_up()
    array = memory.known.scheduler.task(task.id)
    assert array is not None and array.pending == (ItemRange(0, 10),)
    shares = (DeviceShare(node.device_ids[0], 100),)
    whole_range = Assignment(task.id, node.node_id, shares, array.requirements, array.limits, 0, 0)

    async def grant(start: int, end: int) -> int:
        assignment = replace(whole_range, items=ItemRange(start, end))
        async with pool.services.database.transaction() as connection:
            planned_attempts = [PlannedAttempt(new_attempt_id(), assignment)]
            return len(await assign(connection, planned_attempts, pool.leads, 15.0))

    assert (await grant(2, 5), await grant(4, 6), await grant(9, 11), await grant(5, 10)) == (
        *(1, 0, 0),
        1,
    )
    await memory.catch_up()
    scheduled_task = memory.known.scheduler.task(task.id)
    assert scheduled_task is not None and scheduled_task.pending == (ItemRange(0, 2),)


def test_a_delayed_task_is_stored_once_and_dropped_when_due() -> None:
    later = DelayedTasks()
    for number in range(1_000):
        task_id = TaskId(f"task_{number}")
        later.put(task_id, 1e6 + number)
        later.put(task_id, 1e6 + number)
        later.drop(task_id)
    kept_id = TaskId("task_kept")
    for due_at in (30.0, 20.0, 10.0, 40.0):
        later.put(kept_id, due_at)
    assert len(later) < 200
    assert later.next_at == 40.0
    assert later.take_due(39.0) == []
    assert later.take_due(40.0) == [kept_id]
    assert later.next_at is None


async def test_a_cancelled_task_that_was_set_aside_is_forgotten(pool: Pool) -> None:
    task = await pool.submit()
    memory = await begun(pool)
    scheduler_state = memory.known
    assert [scheduler_state.refuse(task.id, memory.now + 3600) for _ in range(3)] == [
        False,
        False,
        True,
    ]
    await memory.read_tasks([task.id])
    before = (scheduler_state.next_due, len(scheduler_state.set_aside))
    assert before[0] is not None and before[1] == 1
    await cancel.cancel(pool.services, pool.alice, task.id)
    await memory.catch_up()
    assert (scheduler_state.next_due, len(scheduler_state.set_aside)) == (None, 0)


async def test_reasons_are_put_again_a_few_at_a_time(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each takes a while, as on a server of its own."""
    ids = [(await pool.submit(device_model=f"H{number}")).id for number in range(20)]
    memory = await begun(pool)
    scheduler = memory.known.scheduler
    published = waiting_reasons.WaitingReasons(pool.services, scheduler)
    for _ in range(10):
        await published.publish(scheduler.plan(memory.now, 100).waiting)
    puts, put_at_once = 0, pool.services.live.put

    async def put(key: str, value: bytes, ttl_seconds: float) -> None:
        nonlocal puts
        puts += 1
        await asyncio.sleep(0.02)
        await put_at_once(key, value, ttl_seconds)

    monkeypatch.setattr(pool.services.live, "put", put)
    monkeypatch.setattr(waiting_reasons, "_REASON_SECONDS", 0.0)
    await published.publish({})
    assert 1 <= puts <= 5 and published.is_behind
    for task_id in ids:
        scheduler.drop_task(task_id)
    await published.publish({})
    assert not published.is_behind


async def test_a_placed_attempt_has_the_planned_end(pool: Pool) -> None:
    """Not at its limit, by which reservations would believe in a far later end."""
    await pool.offer()
    await pool.submit(run_seconds=3600.0, expected_seconds=7.0)
    memory = await begun(pool)
    await placed(pool, memory)
    (node,) = memory.known.nodes.values()
    (attempt,) = node.attempts
    assert attempt.expected_end == pytest.approx(memory.now + 7.0, abs=1.0)


async def test_a_task_in_an_emptied_group_gets_no_outdated_reason(pool: Pool) -> None:
    await pool.submit()
    memory = await begun(pool)
    published = waiting_reasons.WaitingReasons(pool.services, memory.known.scheduler)
    slice_ = await schedule.schedule_once(pool.services, pool.leads, memory)
    await published.publish(slice_.waiting, slice_.emptied)
    second = await pool.submit()
    waits = (await task_stream.view(pool.services, pool.alice, second.id)).waiting
    assert waits is not None and waits.code == "no_nodes", "it stands behind one of whom that holds"
    await pool.offer(devices=2)
    slice_ = await schedule.schedule_once(pool.services, pool.leads, memory)
    await published.publish(slice_.waiting, slice_.emptied)
    assert len(slice_.assigned) == 2
    third = await pool.submit()
    assert (await task_stream.view(pool.services, pool.alice, third.id)).waiting is None


async def test_lines_that_only_the_leader_can_tell_apart_share_a_name(pool: Pool) -> None:
    """One of them is left empty: the other's reason stays."""
    quick = await pool.submit(expected_seconds=1.0)
    long = await pool.submit(expected_seconds=1000.0)
    memory = await begun(pool)
    published = waiting_reasons.WaitingReasons(pool.services, memory.known.scheduler)
    plan = memory.known.scheduler.plan(memory.now, 100)
    assert len(plan.waiting) == 2
    await published.publish(plan.waiting, plan.emptied)
    memory.known.scheduler.drop_task(quick.id)
    plan = memory.known.scheduler.plan(memory.now, 100)
    assert len(plan.emptied) == 1
    await published.publish(plan.waiting, plan.emptied)
    assert (await task_stream.view(pool.services, pool.alice, long.id)).waiting is not None


async def test_an_array_begins_with_what_those_of_its_name_have_shown(pool: Pool) -> None:
    """Not item by item; and nobody with more than its part of the pool."""
    node = await pool.offer(devices=2)
    first = await pool.submit(name="same", items=40)
    memory = await begun(pool)
    assert await ranges(pool, memory) == [ItemRange(0, 1), ItemRange(1, 2)]
    while not (await pool.task(first.id)).state.is_final:
        for grant in await pool.fetch(node.node_id):
            numbers = range(grant.items[0].start, grant.items[0].end)
            quick = succeeded(grant, *numbers, seconds=0.0001)
            await pool.report(node.node_id, Started(lease_of(grant)), quick, done(grant))
        await ranges(pool, memory)
    other = await pool.submit(name="other", items=40)
    assert await ranges(pool, memory) == [ItemRange(0, 1), ItemRange(1, 2)]
    await cancel.cancel(pool.services, pool.alice, other.id)
    await pool.submit(name="same", items=40)
    assert await ranges(pool, memory) == [ItemRange(0, 20), ItemRange(20, 40)]


async def ranges(pool: Pool, memory: LeaderMemory) -> list[ItemRange | None]:
    """Which items a round grants."""
    slice_ = await schedule.schedule_once(pool.services, pool.leads, memory)
    return [assignment.items for assignment in slice_.assigned]
