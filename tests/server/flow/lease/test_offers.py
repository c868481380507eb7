"""The devices of a pool, asked for as tasks ask: by price, labels and reliability."""

from typing import Any

import pytest

from potluck.model.device import Availability
from potluck.server.flow.lease import lease
from potluck.store.nodes import device_list, nodes
from potluck.store.nodes import pool_totals as numbers
from potluck.store.nodes.device_list import DeviceFilter
from potluck.wire.consumer import DeviceCounts, PoolDevice, PoolView
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import Heartbeat, RegisterNode
from tests.server.flow.pool import Pool, description


async def listed(pool: Pool, **criteria: Any) -> list[PoolDevice]:
    async with pool.services.database.transaction() as connection:
        return await device_list.page(connection, pool.alice, DeviceFilter(**criteria), None, 10)


@pytest.mark.parametrize(
    ("criteria", "count"),
    [
        ({"max_price_micro_per_hour": 6}, 0),
        ({"max_price_micro_per_hour": 7}, 2),
        ({"labels": ("region=eu", "fast")}, 2),
        ({"labels": ("region=eu", "slow")}, 0),
        ({"labels": ("region",)}, 0),  # word for word
        ({"min_reliability": 0.5}, 2),
        ({"min_reliability": 0.51}, 0),
        ({"vendor": "vid"}, 2),
    ],
)
async def test_devices_are_filtered_like_task_requirements(
    pool: Pool, criteria: dict[str, Any], count: int
) -> None:
    offered = description(2, 7, labels=("fast", "region=eu"))
    await lease.register(pool.services, pool.bobs, RegisterNode(offered))
    await pool.sql("UPDATE nodes SET finished_attempts = 1, lost_attempts = 3")
    assert len(await listed(pool, **criteria)) == count


async def test_listed_reliability_equals_that_of_the_scheduler(pool: Pool) -> None:
    """Both count for themselves, and must come to the same."""
    await pool.offer()
    await pool.sql("UPDATE nodes SET finished_attempts = 5, lost_attempts = 2")
    (device,) = await listed(pool)
    assert device.reliability == 7 / 9
    for min_reliability, is_placed in ((0.78, False), (7 / 9, True)):
        await pool.submit(min_reliability=min_reliability)
        assert bool((await pool.plan()).assigned) == is_placed


async def counted(pool: Pool) -> PoolView:
    async with pool.services.database.transaction() as connection:
        return await numbers.count_pool(connection)


async def test_each_device_is_free_busy_or_away(pool: Pool) -> None:
    assert (await counted(pool)).gpus == DeviceCounts()
    request = RegisterNode(description(3))
    node_id = (await lease.register(pool.services, pool.bobs, request)).node_id
    assert (await counted(pool)).gpus == DeviceCounts(free=3)
    paused = DeviceStatus("GPU-2", Availability.PAUSED, "Lunch.")
    await lease.heartbeat(pool.services, pool.bobs, node_id, Heartbeat(devices=(paused,)))
    await pool.submit()
    await pool.plan()
    pool_counts = await counted(pool)
    assert pool_counts.gpus == DeviceCounts(free=1, busy=1, away=1)
    assert (pool_counts.nodes, pool_counts.running_attempts, pool_counts.waiting_tasks) == (1, 1, 0)
    await pool.sql("UPDATE nodes SET state = 'silent'")
    silent = await counted(pool)
    assert (silent.nodes, silent.silent_nodes) == (0, 1)
    assert silent.gpus == DeviceCounts(busy=1, away=2)


async def test_a_stored_name_that_is_invalid_now_blocks_nothing(pool: Pool) -> None:
    """An earlier version accepted it: tasks go to the node, and everyone's lists show it."""
    await pool.offer()
    await pool.submit(device_model="RTX*")
    hidden = "replace({}::text, 'RTX', 'RTX\u00ad')::jsonb"
    await pool.sql(f"UPDATE devices SET description = {hidden.format('description')}")
    await pool.sql(f"UPDATE tasks SET requirements = {hidden.format('requirements')}")
    platform = '{"platform": "x\u3164"}'
    await pool.sql(f"UPDATE nodes SET description = description || '{platform}'")
    assert len((await pool.plan()).assigned) == 1
    async with pool.services.database.transaction() as connection:
        ((node,), _) = await nodes.page(connection, pool.alice, None, 10)
    assert (node.platform, node.devices[0].description.model) == ("x?", "RTX? 4090")
