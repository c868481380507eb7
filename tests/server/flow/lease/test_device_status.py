"""What a node says of its devices: planned with, told to its owner, and kept for an hour."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.device import Availability, Health
from potluck.model.error import NotFound
from potluck.model.ids import DeviceId, NodeId
from potluck.server import topics
from potluck.server.flow.lease import device_status, lease
from potluck.store.nodes import device_list, nodes
from potluck.store.nodes.device_list import DeviceFilter
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import Heartbeat, HeartbeatAnswer, RegisterNode
from tests.server.flow.pool import Pool, description

HOT = DeviceStatus(
    "GPU-0",
    utilisation_percent=97.5,
    temperature_celsius=81.0,
    memory_used_bytes=2**30,
    power_watts=300.5,
    memory_errors=0,
    others=2,
)


async def offer(pool: Pool, cards: int = 1, **registration: Any) -> NodeId:
    registered_node = await lease.register(
        pool.services, pool.bobs, RegisterNode(description(cards), **registration)
    )
    return registered_node.node_id


async def beat(
    pool: Pool, node_id: NodeId, *statuses: DeviceStatus, wish: int = 0
) -> HeartbeatAnswer:
    heartbeat = Heartbeat(devices=statuses, wish=wish)
    return await lease.heartbeat(pool.services, pool.bobs, node_id, heartbeat)


async def known(pool: Pool, uuid: str = "GPU-0") -> tuple[str, str]:
    device_row = await pool.sql(
        "SELECT ARRAY[availability, why] FROM devices WHERE uuid = $1", uuid
    )
    return device_row[0], device_row[1]


async def told(pool: Pool, *kinds: str) -> list[str]:
    sentences: list[str] = await pool.sql(
        "SELECT array_agg(kind || ' ' || coalesce(data ->> 'why', '') ORDER BY id) FROM events"
        " WHERE kind = ANY($1)",
        list(kinds),
    )
    return sentences or []


async def test_a_device_that_is_not_available_gets_no_work(pool: Pool) -> None:
    node_id = await offer(pool)
    await pool.submit()
    paused = DeviceStatus("GPU-0", Availability.PAUSED, "Its owner has paused it.")
    await beat(pool, node_id, paused)
    assert await known(pool) == ("paused", "Its owner has paused it.")
    assert not (await pool.plan()).assigned
    await beat(pool, node_id, DeviceStatus("GPU-0"))
    assert len((await pool.plan()).assigned) == 1


async def test_the_scheduler_is_woken_by_a_change_and_by_nothing_else(pool: Pool) -> None:
    node_id = await offer(pool)
    async with pool.services.live.listen(topics.SCHEDULE) as listener:
        await beat(pool, node_id, DeviceStatus("GPU-0"))
        assert not await listener.wait(0.01)
        await beat(pool, node_id, DeviceStatus("GPU-0", Availability.IN_USE, "In use."))
        assert await listener.wait(1)
        await beat(pool, node_id, DeviceStatus("GPU-0", Availability.IN_USE, "In use, since 9:00."))
        assert not await listener.wait(0.01), "a sentence changes no plan"
    assert (await known(pool))[1] == "In use, since 9:00."


async def test_unchanged_device_states_are_not_written(pool: Pool) -> None:
    node_id = await offer(pool, 2)
    sick_status = DeviceStatus(
        "GPU-1", Availability.SICK, "Its memory fails.", Health.MEMORY_ERRORS
    )
    await beat(pool, node_id, DeviceStatus("GPU-0"), sick_status)
    marks = "SELECT array_agg(changed::text ORDER BY uuid) FROM devices"
    before = await pool.sql(marks)
    await beat(pool, node_id, DeviceStatus("GPU-0"), sick_status, DeviceStatus("GPU-not-mine"))
    assert await pool.sql(marks) == before
    assert await told(pool, "device.sick") == ["device.sick Its memory fails."]


async def test_owners_get_one_event_for_a_sick_device_and_one_for_recovery(pool: Pool) -> None:
    node_id = await offer(pool)
    lost_status = DeviceStatus("GPU-0", Availability.SICK, "It does not answer.", Health.LOST)
    for status_now in (lost_status, lost_status, DeviceStatus("GPU-0"), DeviceStatus("GPU-0")):
        await beat(pool, node_id, status_now)
    assert await told(pool, "device.sick", "device.well") == [
        "device.sick It does not answer.",
        "device.well ",
    ]
    event = await pool.sql(
        "SELECT ARRAY[account_id, node_id, data ->> 'health'] FROM events"
        " WHERE kind = 'device.sick'"
    )
    assert event == [pool.bob, node_id, "lost"]


async def test_a_device_with_changing_health_is_reported_a_few_times(pool: Pool) -> None:
    node_id = await offer(pool)
    for times in range(20):
        state = Availability.AVAILABLE if times % 2 else Availability.SICK
        await beat(pool, node_id, DeviceStatus("GPU-0", state, str(times)))
    assert len(await told(pool, "device.sick", "device.well")) == 6
    assert await known(pool) == ("available", "19"), "it is only not told"


async def test_states_in_a_registration_hold_from_the_start(pool: Pool) -> None:
    """Where it says nothing of a device, the device's terms count."""
    offered = description(2)
    first, second = offered.devices
    second = replace(second, terms=replace(second.terms, is_paused=True))
    outside_hours = DeviceStatus(first.uuid, Availability.OUTSIDE_HOURS, "It is not Friday.")
    request = RegisterNode(replace(offered, devices=(first, second)), statuses=(outside_hours,))
    await pool.submit()
    await lease.register(pool.services, pool.bobs, request)
    assert await known(pool) == ("outside_hours", "It is not Friday.")
    assert (await known(pool, second.uuid))[0] == "paused"
    assert not (await pool.plan()).assigned


async def test_new_terms_are_registered_without_a_word_to_anybody(pool: Pool) -> None:
    """The same node, still online: only its devices are others."""
    node_id = await offer(pool)
    offered = description(1)
    (card,) = offered.devices
    half = replace(card, terms=replace(card.terms, memory_share=0.5, price_micro_per_hour=7))
    second_request = RegisterNode(replace(offered, devices=(half,)), node_id)
    assert (await lease.register(pool.services, pool.bobs, second_request)).node_id == node_id
    device_terms = await pool.sql("SELECT ARRAY[memory_bytes, price_micro_per_hour] FROM devices")
    assert device_terms == [card.memory_bytes // 2, 7]
    assert await told(pool, "node.online") == ["node.online "]
    await pool.sql("UPDATE nodes SET state = 'silent'")
    await lease.register(pool.services, pool.bobs, second_request)
    assert len(await told(pool, "node.online")) == 2, "it was away"


async def test_samples_are_shown_and_kept_for_an_hour(pool: Pool) -> None:
    node_id = await offer(pool)
    for percent in (10.0, 20.0):
        await beat(pool, node_id, replace(HOT, utilisation_percent=percent))
    await beat(pool, node_id, HOT)
    device_id = DeviceId(await pool.sql("SELECT id FROM devices"))
    samples = (await device_status.history(pool.services, pool.bob, device_id)).samples
    assert [sample.utilisation_percent for sample in samples] == [10.0, 20.0, 97.5]
    assert samples[-1].others == 2 and datetime.now(UTC) - samples[-1].at < timedelta(minutes=1)
    with pytest.raises(NotFound):
        await device_status.history(pool.services, pool.alice, device_id)
    for viewer, others in ((pool.bob, 2), (pool.alice, None)):
        async with pool.services.database.transaction() as connection:
            node_list, _ = await nodes.page(connection, viewer, None, 10)
            device_page = await device_list.page(connection, viewer, DeviceFilter(), None, 10)
        (node,) = await device_status.with_telemetry(pool.services, node_list)
        (device,) = await device_status.with_samples(pool.services, device_page)
        assert node.devices[0].sample == device.sample and device.sample is not None
        sample = device.sample
        assert (sample.temperature_celsius, sample.power_watts, sample.others) == (
            81.0,
            300.5,
            others,
        )


async def test_an_older_sample_is_not_shown(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    node_id = await offer(pool)
    await beat(pool, node_id, HOT)
    monkeypatch.setattr(device_status, "_HISTORY", timedelta(0))
    await asyncio.sleep(0.001)
    device_id = DeviceId(await pool.sql("SELECT id FROM devices"))
    assert not (await device_status.history(pool.services, pool.bob, device_id)).samples


async def test_heartbeats_of_any_content_take_little_room(pool: Pool) -> None:
    """Nothing is kept of devices that the node does not have, and no name however long."""
    long = "\N{GRINNING FACE}" * 190
    offered = description(2)
    cards = [replace(device, uuid=f"{long}{place}") for place, device in enumerate(offered.devices)]
    request = RegisterNode(replace(offered, devices=tuple(cards)))
    node_id = (await lease.register(pool.services, pool.bobs, request)).node_id
    strangers = [DeviceStatus(f"{long}{place}", others=place) for place in range(60)]
    await beat(pool, node_id, *strangers, DeviceStatus(cards[0].uuid, others=7))
    (stored_series,) = await pool.services.live.series(topics.samples(node_id))
    assert len(stored_series) < 200
    device_id = DeviceId(await pool.sql("SELECT id FROM devices WHERE position = 0"))
    (sample,) = (await device_status.history(pool.services, pool.bob, device_id)).samples
    assert sample.others == 7, "the last word, as for the planning"
