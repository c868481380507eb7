"""What would a task meet? Asked on any instance, answered by the leader, and forgotten."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from potluck.model.blob import BlobRef, NamedFile
from potluck.model.device import DeviceKind
from potluck.model.error import InvalidInput, QuotaExceeded, UnaffordableTask, Unavailable
from potluck.model.task_spec import ScriptSpec
from potluck.model.terms import DeviceTerms
from potluck.server.flow.settle import cancel
from potluck.server.flow.submit.estimate import estimate
from potluck.server.leader import leader_rpc
from potluck.server.leader.scheduler_health import SchedulerHealth
from potluck.wire.estimate import Estimate, Outlook
from potluck.wire.events import EventGap
from tests.server.flow.leader import leading
from tests.server.flow.pool import Pool, description, request

HOUR = 3600.0


async def estimated(pool: Pool, **fields: Any) -> Estimate:
    async with leading(pool) as memory:
        memory.known.scheduler.plan(memory.now, 10)
        return await estimate(pool.services, pool.alice, request(**fields))


async def test_free_devices_are_counted_and_priced(pool: Pool) -> None:
    await pool.give(pool.alice, 3_000_000)
    await pool.offer(price_micro_per_hour=500_000)
    await pool.offer(price_micro_per_hour=700_000)
    task_estimate = await estimated(pool, run_seconds=2 * HOUR, expected_seconds=HOUR / 2)
    assert task_estimate.outlook is Outlook.NOW
    assert task_estimate.sentence == "It would start now: 2 of 2 suitable devices are free."
    counts = (
        task_estimate.nodes,
        task_estimate.suitable_nodes,
        task_estimate.suitable_devices,
        task_estimate.free_devices,
    )
    assert counts == (2, 2, 2, 2)
    assert (task_estimate.cheapest_micro_per_hour, task_estimate.dearest_micro_per_hour) == (
        500_000,
        700_000,
    )
    assert (task_estimate.hold_micro, task_estimate.most_micro) == (1_000_000, 1_400_000)
    assert (task_estimate.expected_seconds, task_estimate.expected_micro) == (HOUR / 2, 250_000)
    assert (task_estimate.can_pay, task_estimate.available_micro) == (True, 3_000_000)
    assert (
        task_estimate.estimated_start == task_estimate.at
        and task_estimate.basis == "there is free capacity for it now"
    )


async def test_an_estimate_stores_nothing_and_needs_no_files(pool: Pool) -> None:
    await pool.offer()
    missing = BlobRef("0" * 64, 5)
    spec = ScriptSpec("hello.py", "print(1)", files=(NamedFile("data.csv", missing),))
    task_request = replace(request(secrets={"KEY": "secret"}), spec=spec)
    tables = ("tasks", "events", "ledger_entries", "attempts", "dependencies")
    before = [await pool.sql(f"SELECT count(*) FROM {table}") for table in tables]
    async with leading(pool):
        task_estimate = await estimate(pool.services, pool.alice, task_request)
    assert task_estimate.outlook is Outlook.NEVER, "secrets go to nodes of the account's own"
    assert [refusal.code for refusal in task_estimate.refusals] == ["owner"]
    assert [await pool.sql(f"SELECT count(*) FROM {table}") for table in tables] == before


async def test_nodes_without_the_python_of_the_script_are_unsuitable(pool: Pool) -> None:
    await pool.offer()
    for required, outlook in ((">=3.99", Outlook.NEVER), (">=3.9", Outlook.NOW)):
        source = f'# /// script\n# requires-python = "{required}"\n# ///\n'
        async with leading(pool):
            task_request = replace(request(), spec=ScriptSpec("hello.py", source))
            task_estimate = await estimate(pool.services, pool.alice, task_request)
        assert task_estimate.outlook is outlook
    assert not task_estimate.refusals


async def test_an_estimate_refuses_what_a_submission_refuses(pool: Pool) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        await estimate(pool.services, pool.alice, request(device_model="RTX|"))
    with pytest.raises(InvalidInput, match="to wait for"):
        ghost = "task_01jd0000000000000000000000"
        await estimate(pool.services, pool.alice, request(after=(ghost,)))
    await pool.sql("UPDATE accounts SET max_queued_tasks = 1")
    await pool.submit()
    with pytest.raises(QuotaExceeded):
        await estimate(pool.services, pool.alice, request())


async def test_an_unaffordable_task_is_told_its_price(pool: Pool) -> None:
    await pool.give(pool.alice, 400_000)
    await pool.offer(price_micro_per_hour=500_000)
    task_estimate = await estimated(pool, run_seconds=HOUR)
    assert (task_estimate.outlook, task_estimate.can_pay, task_estimate.hold_micro) == (
        Outlook.NEVER,
        False,
        500_000,
    )
    assert task_estimate.sentence.startswith("The account cannot pay for it. The task needs")
    assert "Lower the time limit" in task_estimate.changes[0]


async def test_a_cheap_device_of_another_kind_makes_nothing_affordable(pool: Pool) -> None:
    """The submission and its estimate say the same."""
    await pool.give(pool.alice, 400_000)
    (card,) = description(price_micro_per_hour=500_000).devices
    cpu = replace(
        card, kind=DeviceKind.CPU, uuid="CPU-1", terms=DeviceTerms(price_micro_per_hour=1_000)
    )
    await pool.offer(devices=(card, cpu))
    fields: dict[str, Any] = {"device_kind": DeviceKind.GPU, "run_seconds": HOUR}
    with pytest.raises(UnaffordableTask) as error_info:
        await pool.submit(**fields)
    assert "needs 0.5 credits to start" in error_info.value.detail
    task_estimate = await estimated(pool, **fields)
    assert (task_estimate.outlook, task_estimate.can_pay) == (Outlook.NEVER, False)
    assert error_info.value.detail in task_estimate.sentence


async def test_a_maximum_price_is_what_must_be_affordable(pool: Pool) -> None:
    await pool.give(pool.alice, 400_000)
    await pool.offer(price_micro_per_hour=500_000)
    await pool.submit(run_seconds=HOUR, max_price_micro_per_hour=400_000)
    task_estimate = await estimated(pool, run_seconds=HOUR, max_price_micro_per_hour=400_000)
    assert (task_estimate.outlook, task_estimate.can_pay) == (Outlook.NEVER, True)
    assert [refusal.code for refusal in task_estimate.refusals] == ["price"], (
        "it waits for a cheaper device"
    )
    with pytest.raises(UnaffordableTask, match=r"needs 0\.400001 .* at its maximum price"):
        await pool.submit(run_seconds=HOUR, max_price_micro_per_hour=400_001)
    assert not (await estimated(pool, run_seconds=HOUR, max_price_micro_per_hour=400_001)).can_pay
    # A maximum far above what is offered and what the account has costs nothing by itself.
    await pool.offer(price_micro_per_hour=300_000)
    await pool.submit(run_seconds=HOUR, max_price_micro_per_hour=900_000)


async def test_a_suitable_device_may_cost_more_than_the_cheapest(pool: Pool) -> None:
    """A submission would be taken, and wait for ever."""
    await pool.give(pool.alice, 400_000)
    await pool.offer(price_micro_per_hour=100_000)
    await pool.offer(price_micro_per_hour=900_000, cores=32)
    task_estimate = await estimated(pool, run_seconds=HOUR, cores=16)
    assert (task_estimate.outlook, task_estimate.can_pay) == (Outlook.NEVER, False)
    assert (
        "needs 0.9 credits to start on the cheapest suitable node; the account has 0.4."
        in task_estimate.sentence
    )


async def test_a_task_that_would_wait_is_told_the_reason(pool: Pool) -> None:
    await pool.started()
    task_estimate = await estimated(pool)
    assert (task_estimate.outlook, task_estimate.free_devices, task_estimate.suitable_devices) == (
        Outlook.LATER,
        0,
        1,
    )
    assert task_estimate.sentence == "It would wait: 1 node has its devices in use."
    assert task_estimate.estimated_start is not None and task_estimate.at is not None
    assert task_estimate.estimated_start > task_estimate.at and task_estimate.basis is not None


async def test_an_unmet_requirement_is_reported_with_a_suggestion(pool: Pool) -> None:
    await pool.offer()
    task_estimate = await estimated(pool, device_model="H100")
    assert task_estimate.outlook is Outlook.NEVER and task_estimate.estimated_start is None
    assert task_estimate.changes == [
        "No device on offer matches the model H100; on offer: RTX 4090.",
        "1 node would take it if it did not require the model H100.",
    ]


async def test_estimates_include_a_delay_and_a_deadline(pool: Pool) -> None:
    await pool.started()
    task_estimate = await estimated(pool, start_within_seconds=60.0)
    assert task_estimate.outlook is Outlook.LATER
    assert task_estimate.sentence.startswith("It would probably miss its deadline. It would wait: ")
    await pool.offer()
    task_estimate = await estimated(pool, delay_seconds=HOUR)
    assert task_estimate.outlook is Outlook.LATER and task_estimate.at is not None
    assert task_estimate.estimated_start == task_estimate.at + timedelta(seconds=HOUR)


async def test_an_estimate_includes_dependencies(pool: Pool) -> None:
    await pool.offer()
    first = await pool.submit(device_model="H100")
    task_estimate = await estimated(pool, after=(first.id,))
    assert task_estimate.outlook is Outlook.LATER and task_estimate.estimated_start is None
    assert task_estimate.sentence.startswith(
        "It waits for 1 task to succeed first. Then: It would start"
    )
    await cancel.cancel(pool.services, pool.alice, first.id)
    assert (await estimated(pool, after=(first.id,))).outlook is Outlook.NEVER


async def test_an_array_costs_an_item_at_a_time_and_is_guessed_as_a_whole(pool: Pool) -> None:
    await pool.give(pool.alice, 1_000_000)
    await pool.offer(devices=2, price_micro_per_hour=100_000)
    task_estimate = await estimated(
        pool, items=10, run_seconds=HOUR, max_attempts=2, expected_seconds=60.0
    )
    assert (task_estimate.hold_micro, task_estimate.most_micro) == (100_000, 2_000_000)
    assert task_estimate.whole_seconds == 300.0


async def test_durations_are_learned_by_task_name(pool: Pool) -> None:
    _, grant = await pool.started()
    await pool.finish(grant)
    async with leading(pool) as memory:
        await memory.read_tasks([grant.task_id])
        task_estimate = await estimate(pool.services, pool.alice, request())
    assert task_estimate.expected_seconds is not None


async def test_an_estimate_takes_and_waits_for_no_lock(pool: Pool) -> None:
    await pool.offer()
    first = await pool.submit(device_model="H100")
    async with leading(pool), pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM tasks WHERE id = $1 FOR UPDATE", first.id)
        async with asyncio.timeout(5):
            task_estimate = await estimate(pool.services, pool.alice, request(after=(first.id,)))
    assert task_estimate.outlook is Outlook.LATER


async def test_an_error_in_one_estimate_does_not_affect_the_others(pool: Pool) -> None:
    first_connection, second_connection = (
        replace(pool.services, settings=replace(pool.services.settings, answer_seconds=seconds))
        for seconds in (0.1, 30.0)
    )

    def answer(subject: leader_rpc.About) -> msgspec.Struct:
        if subject == "task_bad":
            raise ValueError("a fault")
        return EventGap(str(subject))

    questions = [
        asyncio.create_task(leader_rpc.ask(first_connection, "task_bad")),
        asyncio.create_task(leader_rpc.ask(second_connection, "task_good")),
    ]
    answer_count = 0
    async with asyncio.timeout(30):
        while answer_count < 2:
            answer_count += await leader_rpc.answer_all(second_connection, answer)
            await asyncio.sleep(0)
    assert await asyncio.gather(*questions) == [None, b'{"detail":"task_good","hint":""}']


async def test_without_a_leader_an_estimate_is_retryable(pool: Pool) -> None:
    settings = replace(pool.services.settings, answer_seconds=0.1)
    pool.services = replace(pool.services, settings=settings)
    with pytest.raises(Unavailable, match="is not answering"):
        await estimate(pool.services, pool.alice, request())
    await SchedulerHealth(pool.services).begin()
    with pytest.raises(Unavailable, match="scheduler is failing"):
        await estimate(pool.services, pool.alice, request())
