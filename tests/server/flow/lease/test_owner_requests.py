"""What an owner asks of a node from elsewhere: kept, told until it is done, and obeyed at once."""

import asyncio
import json
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from potluck.model.account import Credential, Scope
from potluck.model.device import Availability, Health
from potluck.model.error import Conflict, InvalidInput, NotFound
from potluck.model.ids import AccountId, NodeId
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import Order, TermsChange
from potluck.server.auth.caller import Caller
from potluck.server.flow.lease import lease, owner_requests
from potluck.store.identity import accounts
from potluck.store.nodes import device_list, nodes, pending_requests
from potluck.store.nodes.device_list import DeviceFilter
from potluck.store.nodes.nodes import Owner
from potluck.wire.device_status import DeviceStatus
from potluck.wire.owner_request import OwnerOrder, Wish
from potluck.wire.provider import AcquireLeases, Heartbeat, RegisterNode
from tests.server.flow.pool import Pool, description

PAUSE = TermsChange(is_paused=True)


class Machine:
    """Bob's, with its owner somewhere else."""

    def __init__(self, pool: Pool, owner: Caller, node_id: NodeId) -> None:
        self.pool, self.owner, self.node_id = pool, owner, node_id

    async def wish(self, change: TermsChange) -> Any:
        return await owner_requests.change(self.pool.services, self.owner, self.node_id, change)

    async def order(self, order: Order, *devices: str) -> Any:
        owner_order = OwnerOrder(order, devices)
        return await owner_requests.order(self.pool.services, self.owner, self.node_id, owner_order)

    async def beat(self, wish: int = 0, *statuses: DeviceStatus) -> list[Wish]:
        heartbeat = Heartbeat(devices=statuses, wish=wish)
        response = await lease.heartbeat(
            self.pool.services, self.pool.bobs, self.node_id, heartbeat
        )
        return response.wishes

    async def register(self, wish_number: int = 0) -> None:
        offer = RegisterNode(description(2), self.node_id, wish=wish_number)
        await lease.register(self.pool.services, self.pool.bobs, offer)

    async def states(self) -> list[str]:
        states: list[str] = await self.pool.sql(
            "SELECT array_agg(availability ORDER BY uuid) FROM devices"
        )
        return states


async def caller(pool: Pool, account_id: AccountId) -> Caller:
    async with pool.services.database.transaction() as connection:
        account = await accounts.by_id(connection, account_id)
    assert account is not None
    return Caller(account, Credential.KEY, "key_1", frozenset({Scope.NODES_WRITE}))


@pytest.fixture
async def machine(pool: Pool) -> Machine:
    offer = RegisterNode(description(2))
    registered_node = await lease.register(pool.services, pool.bobs, offer)
    return Machine(pool, await caller(pool, pool.bob), registered_node.node_id)


async def test_an_owner_request_is_repeated_until_it_is_carried_out(machine: Machine) -> None:
    assert await machine.beat() == []
    await machine.wish(TermsChange(price_micro_per_hour=5))
    node_view = await machine.wish(TermsChange(hours="sat, sun", devices=("GPU-1",)))
    first, second = await machine.beat()
    assert first.number < second.number and node_view.wishes == [first, second]
    assert first.change == TermsChange(price_micro_per_hour=5)
    assert second.change == TermsChange(hours="sat, sun", devices=("GPU-1",))
    assert await machine.beat() == [first, second], "as often as it takes"
    assert await machine.beat(first.number) == [second]
    assert await machine.beat(first.number) == [second]
    assert await machine.beat(second.number) == []
    third = (await machine.wish(TermsChange(price_micro_per_hour=None))).wishes[0]
    assert third.number > second.number and third.change.price_micro_per_hour is None
    assert third.change.hours is UNSET


async def test_a_pause_applies_immediately_and_stale_reports_do_not_undo_it(
    pool: Pool, machine: Machine
) -> None:
    await pool.submit()
    await machine.wish(PAUSE)
    assert await machine.states() == ["paused", "paused"]
    assert not (await pool.plan()).assigned, "without a word of the node"
    statuses = [DeviceStatus("GPU-0"), DeviceStatus("GPU-1")]
    (wish,) = await machine.beat(0, *statuses)
    await machine.register()
    assert await machine.states() == ["paused", "paused"], "it knew nothing of the wish"
    await machine.beat(
        wish.number, replace(statuses[0], availability=Availability.PAUSED), statuses[1]
    )
    assert await machine.states() == ["paused", "available"], "now it is the node that says so"
    assert len((await pool.plan()).assigned) == 1


@pytest.mark.parametrize("said_by", ["owner", "node", "registration"])
async def test_unfetched_assignments_are_not_granted_on_a_closed_device(
    pool: Pool, machine: Machine, said_by: str
) -> None:
    """A pause that crosses an assignment costs nobody anything."""
    await pool.fetch(machine.node_id)
    task = await pool.submit(device_count=2)
    assert len((await pool.plan()).assigned) == 1
    paused = DeviceStatus("GPU-1", Availability.PAUSED, "For a test.")
    match said_by:
        case "owner":
            await machine.wish(replace(PAUSE, devices=("GPU-1",)))
        case "node":
            await machine.beat(0, paused)
        case _:
            offer = RegisterNode(description(2), machine.node_id, statuses=(paused,))
            await lease.register(pool.services, pool.bobs, offer)
    task_view = await pool.task(task.id)
    assert (task_view.state, task_view.attempts[0].reason) == (
        TaskState.QUEUED,
        EndReason.WITHDRAWN,
    )
    assert not await pool.fetch(machine.node_id)
    node = await pool.sql("SELECT ARRAY[lost_attempts, is_polling::integer] FROM nodes")
    assert node == [0, 1], "it did not let it lie"
    await pool.check()


async def test_nothing_is_granted_between_a_pause_and_its_effects(
    pool: Pool, machine: Machine
) -> None:
    await pool.submit()
    await pool.plan()
    await pool.sql("UPDATE devices SET availability = 'paused'")
    assert not await pool.fetch(machine.node_id)
    await pool.sql("UPDATE devices SET availability = 'available'")
    (grant,) = await pool.fetch(machine.node_id)
    await machine.wish(PAUSE)
    assert await pool.fetch(machine.node_id) == [grant], (
        "its lease runs; the node says what it does"
    )


async def test_a_silent_node_hears_of_it_when_it_is_back(pool: Pool, machine: Machine) -> None:
    await pool.sql("UPDATE nodes SET state = 'silent'")
    await machine.wish(PAUSE)
    (wish,) = await machine.beat()
    assert wish.change == PAUSE
    assert await machine.states() == ["paused", "paused"]


async def test_single_devices_are_named_by_uuid_or_id(pool: Pool, machine: Machine) -> None:
    device_id = await pool.sql("SELECT id FROM devices WHERE uuid = 'GPU-1'")
    await machine.wish(TermsChange(is_paused=True, devices=(device_id, "GPU-1")))
    (wish,) = await machine.beat()
    assert wish.change is not None and wish.change.devices == ("GPU-1",)
    assert await machine.states() == ["available", "paused"]
    with pytest.raises(NotFound, match="attic has no device 'GPU-7'"):
        await machine.wish(TermsChange(is_paused=True, devices=("GPU-0", "GPU-7")))
    assert await machine.states() == ["available", "paused"]


async def test_orders(machine: Machine) -> None:
    sick_status = DeviceStatus("GPU-1", Availability.SICK, "Hot.", Health.LOST)
    await machine.beat(0, sick_status)
    await machine.order(Order.RECLAIM, "GPU-0")
    assert await machine.states() == ["paused", "sick"], "what is sick stays so"
    with pytest.raises(InvalidInput, match="whole node"):
        await machine.order(Order.DRAIN, "GPU-0")
    await machine.order(Order.DRAIN)
    assert await machine.states() == ["draining", "sick"]
    reclaim, drain = await machine.beat()
    assert reclaim.order == OwnerOrder(Order.RECLAIM, ("GPU-0",))
    assert drain.order == OwnerOrder(Order.DRAIN)


async def test_an_order_to_drain_holds_until_the_node_has_drained(
    pool: Pool, machine: Machine
) -> None:
    await machine.order(Order.DRAIN)
    await lease.leave(pool.services, pool.bobs, machine.node_id)  # before it has heard of it
    await machine.register()
    (drain,) = await machine.beat()
    assert drain.order == OwnerOrder(Order.DRAIN)
    assert await machine.states() == ["draining", "draining"]
    await lease.leave(pool.services, pool.bobs, machine.node_id, wish=drain.number)
    await machine.register(drain.number)
    assert await machine.beat(drain.number) == [], "its next start is not to end at once"
    assert await machine.states() == ["available", "available"]


async def test_stale_reports_may_close_devices_but_not_open_them(
    pool: Pool, machine: Machine
) -> None:
    sick_status = DeviceStatus("GPU-0", Availability.SICK, "It is gone.", Health.LOST)
    await machine.wish(TermsChange(price_micro_per_hour=5))
    await machine.beat(0, sick_status)
    assert await machine.states() == ["sick", "available"]
    await machine.beat(0, DeviceStatus("GPU-0"))
    assert await machine.states() == ["sick", "available"]


async def test_a_late_word_from_before_a_pause_does_not_undo_it(
    pool: Pool, machine: Machine
) -> None:
    await machine.wish(PAUSE)
    (wish,) = await machine.beat()
    paused_statuses = [DeviceStatus(f"GPU-{place}", Availability.PAUSED) for place in (0, 1)]
    assert await machine.beat(wish.number, *paused_statuses) == []
    await machine.register()
    (number,) = await machine.beat(0, DeviceStatus("GPU-0"), DeviceStatus("GPU-1"))
    assert await machine.states() == ["paused", "paused"]
    assert number == Wish(wish.number), "should it have forgotten it"
    assert await machine.beat(number.number, DeviceStatus("GPU-0"), paused_statuses[1]) == []
    assert await machine.states() == ["available", "paused"]


async def test_a_wish_that_crosses_a_beat_is_not_taken_for_one_that_was_forgotten(
    pool: Pool, machine: Machine
) -> None:
    """The beat waits for the node's row, and then sees its new number with the old wishes."""
    async with pool.services.database.transaction() as connection:
        await nodes.lock_own(connection, machine.node_id, pool.bob, also_left=False)
        heartbeat = asyncio.create_task(machine.beat())
        await asyncio.sleep(0.2)
        await pending_requests.add(connection, machine.node_id, Wish(0, change=PAUSE))
    (wish,) = await heartbeat
    assert wish.change == PAUSE


async def test_a_device_that_comes_after_a_pause_of_the_whole_node_is_paused(
    pool: Pool, machine: Machine
) -> None:
    await machine.register()
    await machine.wish(PAUSE)
    offer = RegisterNode(description(3), machine.node_id)
    await lease.register(pool.services, pool.bobs, offer)
    assert await machine.states() == ["paused"] * 3
    await lease.register(pool.services, pool.bobs, RegisterNode(description(1), machine.node_id))
    (wish,) = await machine.beat()
    await machine.order(Order.RECLAIM)  # while two are not there
    await pool.sql("UPDATE devices SET availability = 'available'")
    await lease.register(pool.services, pool.bobs, replace(offer, wish=wish.number))
    assert await machine.states() == ["paused"] * 3


async def test_an_open_poll_ends_when_there_is_a_wish(pool: Pool, machine: Machine) -> None:
    pool.services = replace(
        pool.services, settings=replace(pool.services.settings, poll_seconds=30.0)
    )
    request = AcquireLeases(wait_seconds=30)
    polling = asyncio.create_task(lease.acquire(pool.services, pool.bobs, machine.node_id, request))
    async with asyncio.timeout(10):
        while not pool.services.live._listeners._by_topic:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)
        await machine.wish(PAUSE)
        response = await polling
    assert response.has_wishes and not response.grants
    request = AcquireLeases(wait_seconds=0)
    assert (await lease.acquire(pool.services, pool.bobs, machine.node_id, request)).has_wishes


async def test_only_the_owner_may_wish_and_sees_the_wishes(pool: Pool, machine: Machine) -> None:
    stranger = await caller(pool, pool.alice)
    with pytest.raises(NotFound, match="no node") as error_info:
        await owner_requests.change(pool.services, stranger, machine.node_id, PAUSE)
    assert "potluck nodes" in error_info.value.hint
    with pytest.raises(NotFound, match="no node"):
        await owner_requests.order(
            pool.services, stranger, machine.node_id, OwnerOrder(Order.RECLAIM)
        )
    assert await machine.states() == ["available", "available"]
    await machine.wish(PAUSE)
    assert (await owner_requests.show(pool.services, pool.bob, machine.node_id)).wishes
    assert not (await owner_requests.show(pool.services, pool.alice, machine.node_id)).wishes


async def test_wallets_of_the_terms_are_shown_to_the_owner_alone(
    pool: Pool, machine: Machine
) -> None:
    offered = description(2)
    denied = "0x52908400098527886E0F7030069857D2E4169EE7"
    first, second = offered.devices
    choosy = replace(first, terms=replace(first.terms, deny=(denied.lower(),)))
    offer = RegisterNode(replace(offered, devices=(choosy, second)), machine.node_id)
    await lease.register(pool.services, pool.bobs, offer)
    owner_view = await owner_requests.show(pool.services, pool.bob, machine.node_id)
    other_view = await owner_requests.show(pool.services, pool.alice, machine.node_id)
    assert owner_view.devices[0].description.terms.deny == (denied,), "in the one spelling"
    assert other_view.devices[0].description.terms.deny == ()
    for node in (owner_view, other_view):
        assert [device.chooses_accounts for device in node.devices] == [True, False]


async def test_unfetched_owner_requests_do_not_accumulate(machine: Machine) -> None:
    for price in range(100):
        await machine.wish(TermsChange(price_micro_per_hour=price))
    with pytest.raises(Conflict, match="100 requests"):
        await machine.wish(PAUSE)
    assert await machine.states() == ["available", "available"], "nothing of it has happened"


async def test_unfetched_owner_requests_are_bounded_in_size(machine: Machine) -> None:
    wallets = tuple(f"0x{place:040x}" for place in range(1000))
    large_change = TermsChange(allow=wallets, deny=wallets)
    with pytest.raises(Conflict, match="requests are already pending"):
        for _ in range(10):
            await machine.wish(large_change)
    pending = (
        await owner_requests.show(machine.pool.services, machine.pool.bob, machine.node_id)
    ).wishes
    assert 1 <= len(pending) < 10


async def test_the_audit_names_the_actor_of_each_change(pool: Pool, machine: Machine) -> None:
    wallet = "0x52908400098527886E0F7030069857D2E4169EE7"
    await machine.wish(TermsChange(is_paused=True, deny=(wallet,), hours=None))
    await machine.order(Order.DRAIN)
    detail = await pool.sql(
        "SELECT json_agg(json_build_array(kind, actor, subject, detail) ORDER BY number)::text"
        " FROM audit WHERE kind IN ('terms_changed', 'order_given')"
    )
    expected_change = "devices=(0) is_paused=True hours=None deny=(1)"
    assert json.loads(detail) == [
        ["terms_changed", pool.bob, machine.node_id, {"what": expected_change, "by": "key key_1"}],
        ["order_given", pool.bob, machine.node_id, {"what": "drain", "by": "key key_1"}],
    ]


async def test_a_node_that_has_ended_hears_of_a_pause_when_it_starts_and_of_no_order(
    pool: Pool, machine: Machine
) -> None:
    await lease.leave(pool.services, pool.bobs, machine.node_id)
    with pytest.raises(NotFound):
        await machine.order(Order.DRAIN)
    with pytest.raises(NotFound):
        await owner_requests.show(pool.services, pool.bob, machine.node_id)
    assert (await machine.wish(PAUSE)).wishes
    await machine.register()
    assert await machine.states() == ["paused", "paused"]
    (wish,) = await machine.beat()
    assert wish.change == PAUSE


async def test_times_of_owner_use_are_private(pool: Pool, machine: Machine) -> None:
    offered = description(1)
    (card,) = offered.devices
    shy = replace(card, terms=replace(card.terms, idle_minutes=10.0, hours="sat, sun"))
    in_use = DeviceStatus(card.uuid, Availability.IN_USE, "Its owner uses it.")
    request = RegisterNode(replace(offered, devices=(shy,)), machine.node_id, statuses=(in_use,))
    await lease.register(pool.services, pool.bobs, request)
    for viewer, expected, minutes in (
        (pool.bob, (Availability.IN_USE, "Its owner uses it."), 10.0),
        (pool.alice, (Availability.PAUSED, ""), 0),
    ):
        async with pool.services.database.transaction() as connection:
            (pool_device,) = await device_list.page(connection, viewer, DeviceFilter(), None, 10)
            node = await nodes.get(connection, machine.node_id, viewer)
        for device in (pool_device, node.devices[0]):
            assert (device.availability, device.why) == expected
            assert device.description.terms.idle_minutes == minutes
            assert device.description.terms.hours == "sat, sun", "what concerns a task"


async def test_another_key_of_the_wallet_speaks_for_no_wish(pool: Pool, machine: Machine) -> None:
    await machine.wish(PAUSE)
    with pytest.raises(NotFound):
        heartbeat = Heartbeat(wish=2**62)
        await lease.heartbeat(
            pool.services, Owner(pool.bob, "nodekey_1"), machine.node_id, heartbeat
        )
    assert len(await machine.beat()) == 1
