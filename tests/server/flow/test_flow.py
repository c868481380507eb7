"""submit → queue → schedule → lease → execute → report → settle → notify, on a real database."""

import asyncio

import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.error import Conflict, InvalidInput, NotFound, StaleLease
from potluck.model.ids import NodeId, TaskId
from potluck.model.lease import AttemptState, Lease
from potluck.model.task import GIB, EndReason, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.model.terms import DeviceTerms
from potluck.server.flow.housekeeping import expire
from potluck.server.flow.lease import device_status, lease
from potluck.server.flow.notify import task_stream
from potluck.server.flow.schedule.schedule import schedule_once
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit import submit
from potluck.server.leader.memory import LeaderMemory
from potluck.store.attempts.assign import PlannedAttempt, assign
from potluck.store.new_ids import new_attempt_id, new_task_id
from potluck.store.nodes import nodes
from potluck.store.scheduler.leader import Leadership, TermOver
from potluck.wire.provider import AcquireLeases, Heartbeat, Preparing, Started
from tests.server.flow.pool import Pool, done, lease_of, request, used
from tests.server.flow.schedule.arrays import place

pytestmark = pytest.mark.every_postgres


async def test_a_task_goes_all_the_way(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit()
    assert task.state is TaskState.QUEUED
    await pool.plan()
    assert (await pool.task(task.id)).state is TaskState.ASSIGNED
    (grant,) = await pool.fetch(node.node_id)
    held_lease = lease_of(grant)
    assert await pool.report(node.node_id, Preparing(held_lease)) == ["accepted"]
    assert (await pool.task(task.id)).phase == "preparing"
    assert await pool.report(node.node_id, Started(held_lease)) == ["accepted"]
    assert (await pool.task(task.id)).state is TaskState.RUNNING
    assert await pool.say(node.node_id, held_lease, 0, "hello\n") == 1
    assert await pool.report(node.node_id, done(grant)) == ["accepted"]
    finished = await pool.task(task.id)
    assert (finished.state, finished.exit_code) == (TaskState.SUCCEEDED, 0)
    await pool.check()


async def test_the_same_key_is_the_same_task(pool: Pool) -> None:
    first = await pool.submit(key="k")
    assert (await pool.submit(key="k")).id == first.id
    with pytest.raises(Conflict):
        await pool.submit(key="k", priority=1)
    tasks = await asyncio.gather(*(pool.submit(key="p") for _ in range(20)))
    assert len({task.id for task in tasks}) == 1


async def test_a_grant_is_given_again_until_it_is_held(pool: Pool) -> None:
    node = await pool.offer()
    await pool.submit()
    await pool.plan()
    (first,) = await pool.fetch(node.node_id)
    (second_grant,) = await pool.fetch(node.node_id)
    assert first == second_grant
    assert await pool.fetch(node.node_id, lease_of(first)) == []


async def test_the_same_report_again_gets_the_same_answer(pool: Pool) -> None:
    node_id, grant = await pool.started()
    assert await pool.report(node_id, done(grant), done(grant)) == ["accepted", "accepted"]
    assert await pool.report(node_id, done(grant, EndReason.EXIT_STATUS, exit_code=1)) == [
        "conflict"
    ]
    assert (await pool.task(grant.task_id)).state is TaskState.SUCCEEDED
    await pool.check()


async def test_a_hundred_equal_reports_at_once_settle_once(pool: Pool) -> None:
    await pool.give(pool.alice, 10**9)
    node_id, grant = await pool.started(price_micro_per_hour=3_600_000_000, run_seconds=100.0)
    await pool.sql("UPDATE attempts SET started_at = now() - interval '10 seconds'")
    reports = [pool.report(node_id, done(grant, usage=used(1.0))) for _ in range(100)]
    assert await asyncio.gather(*reports) == [["accepted"]] * 100
    assert await pool.sql("SELECT count(*) FROM ledger_entries WHERE kind = 'reward'") == 1
    await pool.check()


async def test_a_strangers_token_changes_nothing(pool: Pool) -> None:
    node_id, grant = await pool.started()
    forged = Lease(grant.attempt_id, "x" * 43)
    other = await pool.offer()
    assert await pool.report(node_id, Started(forged)) == ["stale_lease"]
    assert await pool.report(other.node_id, done(grant)) == ["stale_lease"]
    with pytest.raises(StaleLease):
        await pool.say(node_id, forged, 0, "not mine")
    with pytest.raises(NotFound):
        await task_stream.view(pool.services, pool.bob, grant.task_id)
    assert (await pool.task(grant.task_id)).state is TaskState.RUNNING


async def test_a_node_cannot_report_reasons_of_the_server(pool: Pool) -> None:
    node_id, grant = await pool.started()
    assert await pool.report(node_id, done(grant, EndReason.POISON)) == ["invalid_input"]
    assert await pool.report(node_id, done(grant, exit_code=5)) == ["invalid_input"]
    odd = done(grant, EndReason.EXIT_STATUS, exit_code=0)
    assert await pool.report(node_id, odd) == ["invalid_input"]
    assert await pool.report(node_id, done(grant)) == ["accepted"]


CANCELLED_IN = ["queued", "assigned", "preparing", "running"]


@pytest.mark.parametrize("state", CANCELLED_IN)
async def test_cancel_at_every_state(pool: Pool, state: str) -> None:
    node = await pool.offer()
    task = await pool.submit()
    grants = []
    if state != "queued":
        await pool.plan()
        grants = await pool.fetch(node.node_id)
    if state == "preparing":
        await pool.report(node.node_id, Preparing(lease_of(grants[0])))
    if state == "running":
        await pool.report(node.node_id, Started(lease_of(grants[0])))
    cancelled = await cancel.cancel(pool.services, pool.alice, task.id)
    assert cancelled.state is TaskState.CANCELLED
    assert (await cancel.cancel(pool.services, pool.alice, task.id)).state is TaskState.CANCELLED
    for grant in grants:
        assert await pool.beat(node.node_id, lease_of(grant)) == [grant.attempt_id]
        assert await pool.report(node.node_id, done(grant)) == ["stale_lease"]
    await pool.check()


async def test_a_finished_task_cannot_be_cancelled(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await pool.report(node_id, done(grant))
    with pytest.raises(Conflict):
        await cancel.cancel(pool.services, pool.alice, grant.task_id)


async def test_an_expired_lease_goes_back_to_the_queue(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await _run_out(pool)
    assert await expire.expire_once(pool.services, pool.leads) == 1
    task = await pool.task(grant.task_id)
    assert (task.state, task.attempts[0].state) == (TaskState.QUEUED, AttemptState.LOST)
    await pool.check()
    await pool.plan()
    assert await pool.report(node_id, done(grant)) == ["stale_lease"], "given away"
    (second,) = await pool.fetch(node_id)
    assert second.attempt_id != grant.attempt_id
    assert await pool.report(node_id, done(second)) == ["accepted"]
    await pool.check()


async def test_a_renewed_lease_does_not_expire(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await _run_out(pool)
    await pool.beat(node_id, lease_of(grant))
    assert await expire.expire_once(pool.services, pool.leads) == 0


async def test_unfetched_assignments_are_withdrawn_uncounted(pool: Pool) -> None:
    node = await pool.offer()
    task = await pool.submit()
    for _ in range(8):
        assert await pool.fetch(node.node_id) == [], "it asks, and then is gone"
        await pool.plan()
        await _run_out(pool)
        assert await expire.expire_once(pool.services, pool.leads) == 1
    after = await pool.task(task.id)
    assert after.state is TaskState.QUEUED
    assert {attempt.reason for attempt in after.attempts} == {EndReason.WITHDRAWN}
    assert await pool.sql("SELECT lost_attempts FROM nodes") == 8, "but its node has a bad name"
    await pool.check()


@pytest.mark.parametrize("end_kind", ["it leaves", "its leases run out"])
async def test_simultaneous_ends_take_few_transactions(pool: Pool, end_kind: str) -> None:
    node = await pool.offer(devices=8)
    for _ in range(6):
        await pool.submit()
    await pool.submit(items=2, expected_seconds=1.0)
    await pool.plan()
    assert len(await pool.fetch(node.node_id)) == 8
    if end_kind == "it leaves":
        await lease.leave(pool.services, pool.bobs, node.node_id)
    else:
        await _run_out(pool)
        assert await expire.expire_once(pool.services, pool.leads) == 8
    assert await pool.sql("SELECT count(*) FROM attempts WHERE state = 'lost'") == 8
    # Of the array one range after the other: what becomes of it depends on the one before.
    assert await pool.sql("SELECT count(DISTINCT xmin::text) FROM attempts") == 2
    await pool.check()


async def test_three_lost_nodes_are_poison(pool: Pool) -> None:
    nodes = [(await pool.offer()).node_id for _ in range(4)]
    task = await pool.submit()
    for _ in range(3):
        await pool.plan()
        grants = [(node, grant) for node in nodes for grant in await pool.fetch(node)]
        ((node_id, grant),) = grants
        codes = await pool.report(node_id, done(grant, EndReason.NODE_RESTARTED))
        assert codes == ["accepted"]
    poisoned = await pool.task(task.id)
    assert (poisoned.state, poisoned.reason) == (TaskState.FAILED, EndReason.POISON)
    assert len({attempt.node_id for attempt in poisoned.attempts}) == 3, "elsewhere each time"
    assert {attempt.usage for attempt in poisoned.attempts} == {None}, "nobody has measured it"
    await pool.check()


async def test_a_deadline_ends_what_waits(pool: Pool) -> None:
    task = await pool.submit(start_within_seconds=0.001)
    await pool.sql("UPDATE tasks SET start_before = now() - interval '1 second'")
    assert await expire.expire_once(pool.services, pool.leads) == 1
    assert (await pool.task(task.id)).state is TaskState.EXPIRED


async def test_a_stopping_node_that_returns_work_does_not_get_it_again(pool: Pool) -> None:
    node_id, grant = await pool.started()
    assert await pool.report(node_id, done(grant, EndReason.NODE_LEFT)) == ["accepted"]
    await pool.sql("UPDATE tasks SET not_before = NULL")
    assert not (await pool.plan()).assigned, "the only node that suits is leaving"
    given_back = (await pool.task(grant.task_id)).attempts[-1]
    assert given_back.usage is None, "nothing was measured, so the server's times count"
    await pool.fetch(node_id)
    assert (await pool.plan()).assigned, "it stayed, and polls"
    await pool.check()


async def test_leaving_returns_attempts_immediately(pool: Pool) -> None:
    node_id, grant = await pool.started()
    await lease.leave(pool.services, pool.bobs, node_id)
    assert (await pool.task(grant.task_id)).state is TaskState.QUEUED
    assert not (await pool.plan()).assigned, "a node that left gets nothing"
    await pool.check()


async def test_a_silent_node_gets_no_work_until_it_beats(pool: Pool) -> None:
    node = await pool.offer()
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '1 hour'")
    assert await expire.expire_once(pool.services, pool.leads) == 1
    await pool.submit()
    assert not (await pool.plan()).assigned
    await pool.beat(node.node_id)
    assert (await pool.plan()).assigned


async def test_an_old_leaders_plan_changes_nothing(pool: Pool) -> None:
    await pool.offer()
    task = await pool.submit()
    pool.leads = Leadership("me", pool.leads.term - 1)
    with pytest.raises(TermOver):
        await pool.plan()
    assert (await pool.task(task.id)).state is TaskState.QUEUED
    await pool.check()


async def test_two_planners_at_once_never_over_commit(pool: Pool) -> None:
    await pool.offer(devices=2)
    for _ in range(6):
        await pool.submit()
    await asyncio.gather(*(pool.plan() for _ in range(6)))
    live = await pool.sql("SELECT count(*) FROM attempts WHERE state = 'granted'")
    assert live == 2
    await pool.check()


async def test_a_price_that_changed_is_not_agreed_to(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    await pool.offer(price_micro_per_hour=10)
    task = await pool.submit()
    memory = LeaderMemory(pool.services)
    await memory.begin()
    (assignment,) = memory.known.scheduler.plan(memory.now, 10).assignments
    async with pool.services.database.transaction() as connection:
        await connection.execute("UPDATE devices SET price_micro_per_hour = 20")
        planned_attempts = [PlannedAttempt(new_attempt_id(), assignment)]
        applied = await assign(connection, planned_attempts, pool.leads, 15.0)
    assert applied == []
    assert (await pool.task(task.id)).state is TaskState.QUEUED


async def test_credit_is_held_charged_and_refunded(pool: Pool) -> None:
    await pool.give(pool.alice, 1_000_000)
    node_id, grant = await pool.started(price_micro_per_hour=3_600_000, run_seconds=100.0)
    assert (await pool.balance(pool.alice)).held_micro == 100_000
    assert (await pool.balance(pool.alice)).available_micro == 900_000
    await pool.sql("UPDATE attempts SET started_at = now() - interval '10 seconds'")
    await pool.report(node_id, done(grant, usage=used(5.0)))
    alice, bob = await pool.balance(pool.alice), await pool.balance(pool.bob)
    assert (alice.available_micro, alice.held_micro) == (995_000, 0)
    assert bob.available_micro == 5_000
    await pool.check()


async def test_lost_work_is_not_paid(pool: Pool) -> None:
    await pool.give(pool.alice, 1_000_000)
    await pool.started(price_micro_per_hour=3_600_000, run_seconds=100.0)
    await _run_out(pool)
    await expire.expire_once(pool.services, pool.leads)
    assert (await pool.balance(pool.alice)).available_micro == 1_000_000
    assert (await pool.balance(pool.bob)).available_micro == 0
    await pool.check()


async def test_an_unaffordable_task_is_refused_at_submit(pool: Pool) -> None:
    await pool.offer(price_micro_per_hour=3_600_000)
    with pytest.raises(InvalidInput, match="credits"):
        await pool.submit()


async def test_a_task_without_credit_waits(pool: Pool) -> None:
    await pool.give(pool.alice, 100_000)
    await pool.offer(devices=2, price_micro_per_hour=3_600_000)
    for _ in range(2):
        await pool.submit(run_seconds=100.0)
    decided = await pool.plan()
    assert len(decided.assigned) == 1
    assert [waiting_task.reason.code for waiting_task in decided.waiting.values()] == ["credit"]
    await pool.check()


async def test_a_waiting_task_knows_why(pool: Pool) -> None:
    task = await pool.submit()
    await pool.plan()
    task_view = await task_stream.view(pool.services, pool.alice, task.id)
    assert task_view.waiting is not None and task_view.waiting.code == "no_nodes"


async def test_registering_again_keeps_ids_and_reservations(pool: Pool) -> None:
    first = await pool.offer(devices=2)
    await pool.submit()
    await pool.plan()
    second_offer = await pool.offer(first.node_id, devices=1, cores=1, memory_bytes=1)
    assert second_offer.node_id == first.node_id
    assert second_offer.device_ids == first.device_ids[:1]
    await pool.check()


async def test_a_bad_script_never_enters_the_queue(pool: Pool) -> None:
    bad = request()
    spec = ScriptSpec("x.py", '# /// script\n# dependencies = ["a @ file:///etc/passwd"]\n# ///')
    with pytest.raises(InvalidInput):
        await submit.submit(pool.services, pool.alice, type(bad)(spec=spec), None)


async def test_foreign_and_missing_tasks_look_the_same(pool: Pool) -> None:
    own_task = await pool.submit()
    for account, task_id in ((pool.bob, own_task.id), (pool.alice, new_task_id())):
        with pytest.raises(NotFound):
            await cancel.cancel(pool.services, account, TaskId(task_id))


async def _run_out(pool: Pool) -> None:
    await pool.sql("UPDATE attempts SET lease_expires_at = now() - interval '1 second'")


async def test_an_old_term_expires_nothing(pool: Pool) -> None:
    await pool.started()
    await _run_out(pool)
    old = Leadership("me", pool.leads.term - 1)
    assert await expire.expire_once(pool.services, old) == 0
    await pool.sql("UPDATE leader SET expires_at = now()")
    assert await expire.expire_once(pool.services, pool.leads) == 0


async def test_a_poll_whose_node_is_gone_does_not_count_as_hearing_from_it(pool: Pool) -> None:
    node = await pool.offer()
    # Who was heard a moment ago is not written down again.
    await pool.sql("UPDATE nodes SET heartbeat_at = registered_at - interval '1 minute'")
    poll_request = AcquireLeases(wait_seconds=0.2)
    polling = asyncio.create_task(
        lease.acquire(pool.services, pool.bobs, node.node_id, poll_request)
    )
    await asyncio.sleep(0)  # the node hangs up now; the server does not know
    heartbeat_time = await _until_waiting(pool, node.node_id)
    await polling
    assert await pool.sql("SELECT heartbeat_at FROM nodes") == heartbeat_time


async def _until_waiting(pool: Pool, node_id: NodeId) -> object:
    """The time of the beat with which the poll came in."""
    registered_at = await pool.sql("SELECT registered_at FROM nodes WHERE id = $1", node_id)
    while True:
        heartbeat_time = await pool.sql("SELECT heartbeat_at FROM nodes WHERE id = $1", node_id)
        if heartbeat_time >= registered_at:
            return heartbeat_time


async def test_a_node_that_ignores_its_grant_loses_it(pool: Pool) -> None:
    node = await pool.offer()
    await pool.submit()
    await pool.plan()
    assert len(await pool.fetch(node.node_id)) == 1
    await _run_out(pool)
    assert len(await pool.fetch(node.node_id)) == 1, "given again, but not for ever"
    assert await expire.expire_once(pool.services, pool.leads) == 1


async def test_a_lively_node_keeps_nothing_beyond_its_limit(pool: Pool) -> None:
    node_id, grant = await pool.started(run_seconds=10.0)
    await pool.sql("UPDATE attempts SET started_at = now() - interval '1 day'")
    await _run_out(pool)
    await pool.beat(node_id, lease_of(grant))
    assert await expire.expire_once(pool.services, pool.leads) == 1


async def test_a_node_that_did_not_fetch_is_not_preferred_again(pool: Pool) -> None:
    nodes = {(await pool.offer()).node_id, (await pool.offer()).node_id}
    await pool.submit()
    (dead,) = [assignment.node_id for assignment in (await pool.plan()).assigned]
    await _run_out(pool)
    await expire.expire_once(pool.services, pool.leads)
    assert {assignment.node_id for assignment in (await pool.plan()).assigned} == nodes - {dead}


async def test_a_node_that_never_polls_gets_no_more_work(pool: Pool) -> None:
    node = await pool.offer()
    await pool.submit()
    assert len((await pool.plan()).assigned) == 1
    await _run_out(pool)
    await expire.expire_once(pool.services, pool.leads)
    others = [await pool.submit(), await pool.submit()]
    memory = LeaderMemory(pool.services)
    await memory.begin()
    await pool.beat(node.node_id)
    await pool.offer(node.node_id)
    assert not (await pool.plan()).assigned, "neither a beat nor a description fetches anything"
    assert not await place(pool, node, others[0].id), "nor is an older plan of any use"
    assert await pool.fetch(node.node_id) == []
    assert len((await schedule_once(pool.services, pool.leads, memory)).assigned) == 1
    (grant,) = await pool.fetch(node.node_id)
    await pool.report(node.node_id, done(grant))
    assert len((await pool.plan()).assigned) == 1, "what it did fetch changes nothing"
    await pool.check()


async def test_an_unplaceable_task_does_not_block_others(pool: Pool) -> None:
    settings = replace(pool.services.settings, most_tasks_per_page=2)
    pool.services = replace(pool.services, settings=settings)
    await pool.offer()
    for _ in range(5):
        await pool.submit(device_model="nobody has it", priority=100)
    placeable = await pool.submit()
    assert [assignment.task_id for assignment in (await pool.plan()).assigned] == [placeable.id]


async def test_a_repeated_submission_is_not_asked_for_money_again(pool: Pool) -> None:
    await pool.give(pool.alice, 100_000)
    await pool.offer(price_micro_per_hour=3_600_000)
    first = await pool.submit(key="k", run_seconds=100.0)
    await pool.plan()
    assert (await pool.balance(pool.alice)).available_micro == 0
    assert (await pool.submit(key="k", run_seconds=100.0)).id == first.id


async def test_a_share_of_a_processor_is_priced_as_a_share(pool: Pool) -> None:
    processor = DeviceDescription(
        DeviceKind.CPU, "cpu-1", "AMD", "EPYC", GIB, terms=DeviceTerms(8_000)
    )
    await pool.give(pool.alice, 1_000)
    await pool.offer(devices=(processor,))
    await pool.submit(run_seconds=3600.0, cores=1)
    assert [assignment.hold_micro for assignment in (await pool.plan()).assigned] == [1_000]


async def test_a_whole_gpu_brings_its_share_of_the_node(pool: Pool) -> None:
    node = await pool.offer(devices=2)
    plain, small = await pool.submit(), await pool.submit(cores=2, memory_bytes=2 * GIB)
    await pool.plan()
    grants = {grant.task_id: grant.requirements for grant in await pool.fetch(node.node_id)}
    grant = grants[plain.id]
    assert (grant.cores, grant.memory_bytes, grant.disk_bytes) == (4, 8 * GIB, 8 * GIB)
    grant = grants[small.id]
    assert (grant.cores, grant.memory_bytes, grant.disk_bytes) == (2, 2 * GIB, 8 * GIB)
    used = "SELECT ARRAY[used_cores, used_memory_bytes, used_disk_bytes]::bigint[] FROM nodes"
    assert await pool.sql(used) == [6, 10 * GIB, 16 * GIB]
    await pool.check()


async def test_an_owner_may_keep_the_share_of_a_gpu(pool: Pool) -> None:
    node = await pool.offer(devices=2, gpu_share=0.0)
    await pool.submit()
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    assert (grant.requirements.cores, grant.requirements.memory_bytes) == (1, GIB)


async def test_a_node_that_comes_back_smaller_is_not_over_committed(pool: Pool) -> None:
    node = await pool.offer(devices=4)
    for _ in range(3):
        await pool.submit(cores=2)
    await pool.plan()
    grants = await pool.fetch(node.node_id)
    await pool.offer(node.node_id, devices=4, cores=2)
    await pool.submit(cores=1)
    assert not (await pool.plan()).assigned, "six cores are in use, and there are two"
    for grant in grants:
        await pool.report(node.node_id, done(grant))
    await pool.submit(cores=2)
    assert sum(assignment.requirements.cores for assignment in (await pool.plan()).assigned) <= 2
    await pool.check()


async def test_a_deadline_is_for_the_start_only(pool: Pool) -> None:
    node_id, grant = await pool.started(start_within_seconds=3600.0)
    await pool.report(node_id, done(grant, EndReason.NODE_RESTARTED))
    await pool.sql("UPDATE tasks SET start_before = now() - interval '1 second'")
    assert await expire.expire_once(pool.services, pool.leads) == 0
    assert len((await pool.plan()).assigned) == 1


async def test_an_overdue_task_is_not_started(pool: Pool) -> None:
    await pool.offer()
    await pool.submit(start_within_seconds=3600.0)
    await pool.sql("UPDATE tasks SET start_before = now() - interval '1 second'")
    assert not (await pool.plan()).assigned


async def test_calls_that_name_all_leases_bring_a_silent_node_back(pool: Pool) -> None:
    node_id, grant = await pool.started()
    for call in (pool.fetch(node_id, lease_of(grant)), pool.beat(node_id, lease_of(grant))):
        await pool.sql("UPDATE nodes SET state = 'silent'")
        online_count = await pool.sql("SELECT count(*) FROM events WHERE kind = 'node.online'")
        await call
        assert await pool.sql("SELECT state FROM nodes") == "online"
        assert (
            await pool.sql("SELECT count(*) FROM events WHERE kind = 'node.online'")
            == online_count + 1
        )


async def test_owners_who_leave_do_not_poison_a_task(pool: Pool) -> None:
    task = await pool.submit()
    for _ in range(7):
        node = await pool.offer()
        await pool.plan()
        (grant,) = await pool.fetch(node.node_id)
        await pool.report(node.node_id, Started(lease_of(grant)))
        await lease.leave(pool.services, pool.bobs, node.node_id)
    assert (await pool.task(task.id)).state is TaskState.QUEUED
    await pool.check()


async def test_a_task_that_is_put_off_says_so(pool: Pool) -> None:
    node_id, grant = await pool.started(max_attempts=2)
    await pool.report(node_id, done(grant, EndReason.EXIT_STATUS, exit_code=1))
    await pool.sql("UPDATE tasks SET not_before = now() + interval '1 hour'")
    decided = await pool.plan()
    assert not decided.assigned
    waiting = (await task_stream.view(pool.services, pool.alice, grant.task_id)).waiting
    assert waiting is not None and waiting.code == "back_off"


async def test_nodes_tell_their_load_for_a_while(pool: Pool) -> None:
    node = await pool.offer()
    await lease.heartbeat(pool.services, pool.bobs, node.node_id, Heartbeat(load_percent=12.5))
    async with pool.services.database.transaction() as connection:
        node_list, _ = await nodes.page(connection, pool.alice, None, 10)
    (node_view,) = await device_status.with_telemetry(pool.services, node_list)
    assert (node_view.load_percent, node_view.is_mine) == (12.5, False)
