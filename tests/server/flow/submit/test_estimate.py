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
from tests.server.flow.leading import leading
from tests.server.flow.pool import Pool, description, request

HOUR = 3600.0


async def estimated(pool: Pool, **wanted: Any) -> Estimate:
    async with leading(pool) as memory:
        memory.known.scheduler.plan(memory.now, 10)
        return await estimate(pool.services, pool.alice, request(**wanted))


async def test_what_is_free_is_counted_and_priced(pool: Pool) -> None:
    await pool.give(pool.alice, 3_000_000)
    await pool.offer(price_micro_per_hour=500_000)
    await pool.offer(price_micro_per_hour=700_000)
    said = await estimated(pool, run_seconds=2 * HOUR, expected_seconds=HOUR / 2)
    assert said.outlook is Outlook.NOW
    assert said.sentence == "It would start now: 2 of 2 suitable devices are free."
    counts = (said.nodes, said.suitable_nodes, said.suitable_devices, said.free_devices)
    assert counts == (2, 2, 2, 2)
    assert (said.cheapest_micro_per_hour, said.dearest_micro_per_hour) == (500_000, 700_000)
    assert (said.hold_micro, said.most_micro) == (1_000_000, 1_400_000)
    assert (said.expected_seconds, said.expected_micro) == (HOUR / 2, 250_000)
    assert (said.can_pay, said.available_micro) == (True, 3_000_000)
    assert said.estimated_start == said.at and said.basis == "there is free capacity for it now"


async def test_nothing_is_stored_and_its_files_need_not_be_there(pool: Pool) -> None:
    await pool.offer()
    missing = BlobRef("0" * 64, 5)
    spec = ScriptSpec("hello.py", "print(1)", files=(NamedFile("data.csv", missing),))
    asked = replace(request(secrets={"KEY": "secret"}), spec=spec)
    tables = ("tasks", "events", "ledger_entries", "attempts", "dependencies")
    before = [await pool.sql(f"SELECT count(*) FROM {each}") for each in tables]
    async with leading(pool):
        said = await estimate(pool.services, pool.alice, asked)
    assert said.outlook is Outlook.NEVER, "secrets go to nodes of the account's own"
    assert [each.code for each in said.refusals] == ["owner"]
    assert [await pool.sql(f"SELECT count(*) FROM {each}") for each in tables] == before


async def test_nodes_without_the_python_of_the_script_are_unsuitable(pool: Pool) -> None:
    await pool.offer()
    for required, outlook in ((">=3.99", Outlook.NEVER), (">=3.9", Outlook.NOW)):
        source = f'# /// script\n# requires-python = "{required}"\n# ///\n'
        async with leading(pool):
            asked = replace(request(), spec=ScriptSpec("hello.py", source))
            said = await estimate(pool.services, pool.alice, asked)
        assert said.outlook is outlook
    assert not said.refusals


async def test_what_would_be_refused_is_refused(pool: Pool) -> None:
    with pytest.raises(InvalidInput, match="empty"):
        await estimate(pool.services, pool.alice, request(device_model="RTX|"))
    with pytest.raises(InvalidInput, match="to wait for"):
        ghost = "task_01jd0000000000000000000000"
        await estimate(pool.services, pool.alice, request(after=(ghost,)))
    await pool.sql("UPDATE accounts SET max_queued_tasks = 1")
    await pool.submit()
    with pytest.raises(QuotaExceeded):
        await estimate(pool.services, pool.alice, request())


async def test_who_can_not_pay_is_told_how_much_it_would_be(pool: Pool) -> None:
    await pool.give(pool.alice, 400_000)
    await pool.offer(price_micro_per_hour=500_000)
    said = await estimated(pool, run_seconds=HOUR)
    assert (said.outlook, said.can_pay, said.hold_micro) == (Outlook.NEVER, False, 500_000)
    assert said.sentence.startswith("The account cannot pay for it. The task needs")
    assert "Lower the time limit" in said.changes[0]


async def test_a_cheap_device_of_another_kind_makes_nothing_affordable(pool: Pool) -> None:
    """The submission and its estimate say the same."""
    await pool.give(pool.alice, 400_000)
    (card,) = description(price_micro_per_hour=500_000).devices
    cpu = replace(
        card, kind=DeviceKind.CPU, uuid="CPU-1", terms=DeviceTerms(price_micro_per_hour=1_000)
    )
    await pool.offer(devices=(card, cpu))
    wanted: dict[str, Any] = {"device_kind": DeviceKind.GPU, "run_seconds": HOUR}
    with pytest.raises(UnaffordableTask) as refused:
        await pool.submit(**wanted)
    assert "needs 0.5 credits to start" in refused.value.detail
    said = await estimated(pool, **wanted)
    assert (said.outlook, said.can_pay) == (Outlook.NEVER, False)
    assert refused.value.detail in said.sentence


async def test_a_maximum_price_is_what_must_be_affordable(pool: Pool) -> None:
    await pool.give(pool.alice, 400_000)
    await pool.offer(price_micro_per_hour=500_000)
    await pool.submit(run_seconds=HOUR, max_price_micro_per_hour=400_000)
    said = await estimated(pool, run_seconds=HOUR, max_price_micro_per_hour=400_000)
    assert (said.outlook, said.can_pay) == (Outlook.NEVER, True)
    assert [each.code for each in said.refusals] == ["price"], "it waits for a cheaper device"
    with pytest.raises(UnaffordableTask, match=r"needs 0\.400001 .* at its maximum price"):
        await pool.submit(run_seconds=HOUR, max_price_micro_per_hour=400_001)
    assert not (await estimated(pool, run_seconds=HOUR, max_price_micro_per_hour=400_001)).can_pay
    # A maximum far above what is offered and what the account has costs nothing by itself.
    await pool.offer(price_micro_per_hour=300_000)
    await pool.submit(run_seconds=HOUR, max_price_micro_per_hour=900_000)


async def test_what_suits_may_be_dearer_than_what_is_cheapest(pool: Pool) -> None:
    """A submission would be taken, and wait for ever."""
    await pool.give(pool.alice, 400_000)
    await pool.offer(price_micro_per_hour=100_000)
    await pool.offer(price_micro_per_hour=900_000, cores=32)
    said = await estimated(pool, run_seconds=HOUR, cores=16)
    assert (said.outlook, said.can_pay) == (Outlook.NEVER, False)
    assert (
        "needs 0.9 credits to start on the cheapest suitable node; the account has 0.4."
        in said.sentence
    )


async def test_who_would_wait_is_told_for_what(pool: Pool) -> None:
    await pool.started()
    said = await estimated(pool)
    assert (said.outlook, said.free_devices, said.suitable_devices) == (Outlook.LATER, 0, 1)
    assert said.sentence == "It would wait: 1 node has its devices in use."
    assert said.estimated_start is not None and said.at is not None
    assert said.estimated_start > said.at and said.basis is not None


async def test_what_nobody_has_is_told_with_what_would_help(pool: Pool) -> None:
    await pool.offer()
    said = await estimated(pool, device_model="H100")
    assert said.outlook is Outlook.NEVER and said.estimated_start is None
    assert said.changes == ["1 node would take it if it did not require the model H100."]


async def test_a_delay_and_a_deadline_are_counted_in(pool: Pool) -> None:
    await pool.started()
    said = await estimated(pool, start_within_seconds=60.0)
    assert said.outlook is Outlook.LATER
    assert said.sentence.startswith("It would probably miss its deadline. It would wait: ")
    await pool.offer()
    said = await estimated(pool, delay_seconds=HOUR)
    assert said.outlook is Outlook.LATER and said.at is not None
    assert said.estimated_start == said.at + timedelta(seconds=HOUR)


async def test_what_comes_after_others_waits_for_them(pool: Pool) -> None:
    await pool.offer()
    first = await pool.submit(device_model="H100")
    said = await estimated(pool, after=(first.id,))
    assert said.outlook is Outlook.LATER and said.estimated_start is None
    assert said.sentence.startswith("It waits for 1 task to succeed first. Then: It would start")
    await cancel.cancel(pool.services, pool.alice, first.id)
    assert (await estimated(pool, after=(first.id,))).outlook is Outlook.NEVER


async def test_an_array_costs_an_item_at_a_time_and_is_guessed_as_a_whole(pool: Pool) -> None:
    await pool.give(pool.alice, 1_000_000)
    await pool.offer(devices=2, price_micro_per_hour=100_000)
    said = await estimated(pool, items=10, run_seconds=HOUR, max_attempts=2, expected_seconds=60.0)
    assert (said.hold_micro, said.most_micro) == (100_000, 2_000_000)
    assert said.whole_seconds == 300.0


async def test_how_long_it_takes_is_learned_by_its_name(pool: Pool) -> None:
    _, grant = await pool.started()
    await pool.finish(grant)
    async with leading(pool) as memory:
        await memory.read_tasks([grant.task_id])
        said = await estimate(pool.services, pool.alice, request())
    assert said.expected_seconds is not None


async def test_whoever_asks_waits_for_nobody_and_holds_nobody(pool: Pool) -> None:
    await pool.offer()
    first = await pool.submit(device_model="H100")
    async with leading(pool), pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM tasks WHERE id = $1 FOR UPDATE", first.id)
        async with asyncio.timeout(5):
            said = await estimate(pool.services, pool.alice, request(after=(first.id,)))
    assert said.outlook is Outlook.LATER


async def test_a_fault_in_one_answer_is_no_matter_to_the_others(pool: Pool) -> None:
    soon, late = (
        replace(pool.services, settings=replace(pool.services.settings, answer_seconds=seconds))
        for seconds in (0.1, 30.0)
    )

    def answer(about: leader_rpc.About) -> msgspec.Struct:
        if about == "task_bad":
            raise ValueError("a fault")
        return EventGap(str(about))

    asking = [
        asyncio.create_task(leader_rpc.ask(soon, "task_bad")),
        asyncio.create_task(leader_rpc.ask(late, "task_good")),
    ]
    answered = 0
    async with asyncio.timeout(30):
        while answered < 2:
            answered += await leader_rpc.answer_all(late, answer)
            await asyncio.sleep(0)
    assert await asyncio.gather(*asking) == [None, b'{"detail":"task_good","hint":""}']


async def test_without_a_leader_it_may_be_asked_again(pool: Pool) -> None:
    settings = replace(pool.services.settings, answer_seconds=0.1)
    pool.services = replace(pool.services, settings=settings)
    with pytest.raises(Unavailable, match="is not answering"):
        await estimate(pool.services, pool.alice, request())
    await SchedulerHealth(pool.services).begin()
    with pytest.raises(Unavailable, match="scheduler is failing"):
        await estimate(pool.services, pool.alice, request())
