"""Prices: their history, and what similar devices earned."""

import pytest
from msgspec.structs import replace

from potluck.decide.price_suggestion import suggest_price
from potluck.model.device import DeviceDescription
from potluck.model.error import NotFound
from potluck.model.ids import AccountId, DeviceId
from potluck.model.task import GIB
from potluck.store.nodes import prices
from potluck.store.nodes.nodes import Owner
from potluck.wire.own_machines import DevicePrice
from potluck.wire.provider import NodeRegistered, Started
from tests.server.flow.pool import Pool, description, done, lease_of, used
from tests.wallets import Wallet

pytestmark = pytest.mark.every_postgres

CREDIT = 1_000_000
# As if what runs had started earlier.
RUN_FOR = """UPDATE attempts SET started_at = started_at - make_interval(secs => $1)
    WHERE finished_at IS NULL"""


async def account(pool: Pool, name: str) -> AccountId:
    return AccountId(
        await pool.sql(
            "INSERT INTO accounts (id, address, roles) VALUES ($1, $2, '{provider,consumer}')"
            " RETURNING id",
            f"account_{name:0>26}",
            Wallet(name).address,
        )
    )


async def history(pool: Pool, device_id: DeviceId) -> list[DevicePrice]:
    async with pool.services.database.transaction() as connection:
        return await prices.read_history(connection, device_id, pool.alice, 100)


async def offer_of(
    pool: Pool, owner: AccountId, price: float, model: str = "RTX 4090", memory: int = 24
) -> NodeRegistered:
    pool.bobs = Owner(owner)
    (card,) = description(1, round(price * CREDIT), machine=f"GPU-{owner}-{model}").devices
    device: DeviceDescription = replace(card, model=model, memory_bytes=memory * GIB)
    return await pool.offer(devices=(device,))


async def work(pool: Pool, owner: AccountId, price: float, hours: float, **offer: object) -> None:
    """An hour of work, or more, for Alice on a device of this owner."""
    node = await offer_of(pool, owner, price, **offer)  # type: ignore[arg-type]
    task = await pool.submit(run_seconds=86_400.0)
    await pool.plan()
    (grant,) = await pool.fetch(node.node_id)
    assert grant.task_id == task.id
    await pool.report(node.node_id, Started(lease_of(grant)))
    await pool.sql(RUN_FOR, hours * 3600)
    assert await pool.report(node.node_id, done(grant, usage=used(hours * 3600))) == ["accepted"]
    await pool.sql("UPDATE nodes SET state = 'silent' WHERE id = $1", node.node_id)


async def test_a_price_is_noted_when_it_changes(pool: Pool) -> None:
    node = await pool.offer(price_micro_per_hour=200_000)
    (device_id,) = node.device_ids
    await pool.offer(node.node_id, price_micro_per_hour=200_000)
    await pool.offer(node.node_id, price_micro_per_hour=250_000)
    await pool.offer(node.node_id, price_micro_per_hour=0)
    price_history = await history(pool, device_id)
    assert [price.price_micro_per_hour for price in price_history] == [0, 250_000, 200_000]
    assert price_history == sorted(price_history, key=lambda price: price.since, reverse=True)
    with pytest.raises(NotFound):
        await history(pool, DeviceId("device_01j00000000000000000000000"))


async def test_the_agreed_price_stays_with_the_attempt(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    node_id, grant = await pool.started(price_micro_per_hour=3600 * CREDIT)
    assert grant.price_micro_per_hour == 3600 * CREDIT
    await pool.offer(node_id, price_micro_per_hour=7200 * CREDIT)
    await pool.sql(RUN_FOR, 60.0)
    await pool.report(node_id, done(grant, usage=used(60.0)))
    assert (await pool.task(grant.task_id)).charge_micro == 60 * CREDIT


async def suggestion(pool: Pool, device_id: DeviceId, owner: AccountId) -> object:
    async with pool.services.database.transaction() as connection:
        return suggest_price(await prices.read_similar(connection, device_id, owner))


async def test_earnings_of_similar_devices_need_three_other_owners(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    for name, price in (("one", 0.2), ("two", 0.3)):
        await work(pool, await account(pool, name), price, 2.0)
    own_offer = await offer_of(pool, pool.bob, 5.0)
    await pool.sql("UPDATE nodes SET state = 'silent' WHERE id = $1", own_offer.node_id)
    (device_id,) = own_offer.device_ids
    price_suggestion = await suggestion(pool, device_id, pool.bob)
    assert price_suggestion.low_micro_per_hour is None  # type: ignore[attr-defined]
    await work(pool, await account(pool, "three"), 0.4, 2.0)
    await pool.sql(
        "INSERT INTO device_days SELECT id, (now() AT TIME ZONE 'UTC')::date, 36000 FROM devices"
        " ON CONFLICT (device_id, day) DO UPDATE SET offered_seconds = excluded.offered_seconds"
    )
    price_suggestion = await suggestion(pool, device_id, pool.bob)
    assert price_suggestion.sentence == (  # type: ignore[attr-defined]
        "Similar devices earned 0.25 to 0.35 an hour last week, and were busy 20 % of the time."
    )
    with pytest.raises(NotFound):
        await suggestion(pool, device_id, pool.alice)


async def test_work_for_oneself_is_no_price(pool: Pool) -> None:
    """Three wallets that pay themselves would otherwise set the price of all."""
    await pool.give(pool.alice, 10**12)
    for name in ("one", "two", "three"):
        await work(pool, await account(pool, name), 0.2, 1.0)
    await pool.sql("UPDATE attempts SET consumer_id = provider_id")
    own_offer = await offer_of(pool, pool.bob, 5.0)
    price_suggestion = await suggestion(pool, own_offer.device_ids[0], pool.bob)
    assert price_suggestion.low_micro_per_hour is None  # type: ignore[attr-defined]


async def test_other_models_with_as_much_memory_help_if_there_are_too_few(pool: Pool) -> None:
    await pool.give(pool.alice, 10**12)
    await work(pool, await account(pool, "one"), 0.2, 1.0)
    await work(pool, await account(pool, "two"), 0.2, 1.0, model="RTX 3090", memory=24)
    await work(pool, await account(pool, "three"), 0.2, 1.0, model="L4", memory=23)
    await work(pool, await account(pool, "four"), 9.0, 1.0, model="H100", memory=80)
    own_offer = await offer_of(pool, pool.bob, 5.0)
    price_suggestion = await suggestion(pool, own_offer.device_ids[0], pool.bob)
    assert price_suggestion.sentence.startswith(  # type: ignore[attr-defined]
        "Devices with about the same memory earned 0.2 an hour"
    )
