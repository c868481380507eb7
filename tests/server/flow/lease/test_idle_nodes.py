"""Idle nodes cost little: their calls share statements, and nothing gets lost by that."""

import asyncio
import secrets
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from potluck.live.in_process import InProcessLive
from potluck.model.device import Availability
from potluck.model.error import NotFound
from potluck.model.ids import NodeId
from potluck.server.caches import open_caches
from potluck.server.flow.lease import lease
from potluck.server.loops.caller_renewal import CallerRenewalLoop
from potluck.server.services import Services
from potluck.store.attempts.leases import IdleCall
from potluck.store.identity import node_keys
from potluck.store.identity.node_keys import NodeCaller
from potluck.store.nodes.nodes import Owner
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import AcquireLeases, Heartbeat, LeasesGranted
from tests.server.flow.counted_requests import Statements
from tests.server.flow.counted_requests import statements as statements
from tests.server.flow.pool import Pool, lease_of

NODES = 12


class DeafLive(InProcessLive):
    """Every wake-up is lost."""

    async def wake(self, topic: str) -> None:
        del topic


def without_wakes(pool: Pool) -> None:
    """A pool that only finds by checks what happened."""
    settings = replace(pool.services.settings, poll_seconds=20.0, lease_poll_seconds=0.1)
    pool.services = replace(pool.services, live=DeafLive(), settings=settings)


async def poll(pool: Pool, node_id: NodeId, wait_seconds: float = 0.01) -> LeasesGranted:
    request = AcquireLeases(wait_seconds=wait_seconds, beat=Heartbeat())
    return await lease.acquire(pool.services, pool.bobs, node_id, request)


async def idle_nodes(pool: Pool, count: int) -> list[NodeId]:
    """Their last poll waited in vain."""
    settings = replace(pool.services.settings, poll_seconds=20.0)
    pool.services = replace(pool.services, settings=settings)
    node_ids = [(await pool.offer()).node_id for _ in range(count)]
    responses = await asyncio.gather(*(poll(pool, node_id, 0.5) for node_id in node_ids))
    assert all(response.took_beat for response in responses)
    return node_ids


async def test_polls_of_idle_nodes_share_a_statement(statements: Statements, pool: Pool) -> None:
    node_ids = await idle_nodes(pool, NODES)
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '30 seconds'")
    await poll(pool, node_ids[0], 0.5)  # the first does not wait for others
    statements.take()
    responses = await asyncio.gather(*(poll(pool, node_id) for node_id in node_ids))
    assert all(response.took_beat for response in responses)
    assert len(statements.take()) == 1
    assert await pool.sql(
        "SELECT bool_and(heartbeat_at > now() - interval '20 seconds') FROM nodes"
    )


async def test_heartbeats_of_idle_nodes_share_a_statement(
    statements: Statements, pool: Pool
) -> None:
    node_ids = await idle_nodes(pool, NODES)
    await pool.sql("UPDATE nodes SET heartbeat_at = now() - interval '30 seconds'")
    await pool.beat(node_ids[0])
    statements.take()
    await asyncio.gather(*(pool.beat(node_id) for node_id in node_ids))
    assert len(statements.take()) == 1
    assert await pool.sql(
        "SELECT bool_and(heartbeat_at > now() - interval '20 seconds') FROM nodes"
    )


async def test_waiting_polls_are_checked_together_and_find_unannounced_work(
    statements: Statements, pool: Pool
) -> None:
    without_wakes(pool)
    node_ids = await idle_nodes(pool, NODES)
    polls = [asyncio.create_task(poll(pool, node_id, 20.0)) for node_id in node_ids]
    await asyncio.sleep(0.5)  # all wait, and were checked
    statements.take()
    await asyncio.sleep(0.5)
    assert 1 <= len(statements.take()) <= 6, "one for each interval, however many wait"
    task = await pool.submit()
    await pool.plan()
    finished_polls, waiting = await asyncio.wait(
        polls, timeout=10, return_when=asyncio.FIRST_COMPLETED
    )
    grants = [grant for finished_poll in finished_polls for grant in finished_poll.result().grants]
    assert [grant.task_id for grant in grants] == [task.id]
    for open_poll in waiting:
        open_poll.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_check_finds_cancelled_attempts(pool: Pool) -> None:
    without_wakes(pool)
    node_id, grant = await pool.started()
    request = AcquireLeases((lease_of(grant),), wait_seconds=20.0)
    polling = asyncio.create_task(lease.acquire(pool.services, pool.bobs, node_id, request))
    await asyncio.sleep(0.2)
    await pool.sql("UPDATE attempts SET state = 'cancelled', finished_at = now()")
    assert (await asyncio.wait_for(polling, 10)).stop == [grant.attempt_id]
    await pool.sql("UPDATE attempts SET state = 'running', finished_at = NULL")


async def test_checks_go_on_after_an_outage_of_the_database(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_wakes(pool)
    (node_id,) = await idle_nodes(pool, 1)
    polling = asyncio.create_task(poll(pool, node_id, 20.0))
    await asyncio.sleep(0.05)
    await pool.sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                   " WHERE pid <> pg_backend_pid() AND application_name = 'potluck'")  # fmt: skip
    await asyncio.sleep(0.3)
    await pool.submit()
    await pool.plan()
    assert len((await asyncio.wait_for(polling, 10)).grants) == 1


async def test_a_node_that_is_not_plainly_idle_is_handled_alone(pool: Pool) -> None:
    silent, foreign, busy, new = [(await pool.offer()).node_id for _ in range(4)]
    await pool.sql("UPDATE nodes SET state = 'silent' WHERE id = $1", silent)
    await pool.submit()
    await pool.sql("UPDATE nodes SET is_polling = id = $1", busy)
    await pool.plan()
    owner = pool.bobs
    other = Owner(pool.alice, "key_of_nobody")
    record = pool.services.idle_calls.record
    for node_id, poller in ((silent, owner), (foreign, other), (busy, owner), (new, owner)):
        before = await pool.sql("SELECT heartbeat_at FROM nodes WHERE id = $1", node_id)
        assert await record(pool.services.database, IdleCall(node_id, poller, True)) is None
        after = await pool.sql("SELECT heartbeat_at FROM nodes WHERE id = $1", node_id)
        assert before == after
    # What the idle path leaves out, the ordinary one does.
    assert (await poll(pool, silent)).took_beat
    assert await pool.sql("SELECT state FROM nodes WHERE id = $1", silent) == "online"
    with pytest.raises(NotFound):
        request = AcquireLeases(wait_seconds=0.01)
        await lease.acquire(pool.services, other, foreign, request)


async def test_a_locked_row_delays_no_request(pool: Pool) -> None:
    locked, free = await idle_nodes(pool, 2)
    async with pool.services.database.transaction() as connection:
        await connection.execute("SELECT FROM nodes WHERE id = $1 FOR UPDATE", locked)
        record, database = pool.services.idle_calls.record, pool.services.database
        calls = [IdleCall(node_id, pool.bobs, False) for node_id in (locked, free)]
        async with asyncio.timeout(10):
            skipped, recorded_call = await asyncio.gather(
                *(record(database, call) for call in calls)
            )
    assert skipped is None
    assert recorded_call is not None


async def test_a_poll_reports_the_status_of_devices(pool: Pool) -> None:
    (node_id,) = await idle_nodes(pool, 1)
    uuid = await pool.sql("SELECT uuid FROM devices WHERE node_id = $1", node_id)
    for availability in (Availability.PAUSED, Availability.AVAILABLE):
        heartbeat = Heartbeat(devices=(DeviceStatus(uuid, availability, "for a test"),))
        request = AcquireLeases(wait_seconds=0.01, beat=heartbeat)
        assert (await lease.acquire(pool.services, pool.bobs, node_id, request)).took_beat
        availability_now = await pool.sql(
            "SELECT availability FROM devices WHERE node_id = $1", node_id
        )
        assert availability_now == availability


async def test_a_poll_ends_for_requests_of_the_owner(pool: Pool) -> None:
    (node_id,) = await idle_nodes(pool, 1)
    insert_wish = "INSERT INTO wishes (node_id, number, wish) VALUES ($1, 1, '{}')"
    await pool.sql(insert_wish, node_id)
    async with asyncio.timeout(10):
        assert (await poll(pool, node_id, 20.0)).has_wishes, "its next heartbeat has them"


async def test_concerns_about_devices_need_a_heartbeat_of_their_own(pool: Pool) -> None:
    (node_id,) = await idle_nodes(pool, 1)
    await pool.sql("UPDATE devices SET standing = 'contested'")
    assert not (await poll(pool, node_id)).took_beat


async def test_kept_callers_are_checked_together(pool: Pool) -> None:
    """Also if nobody tells that a key was revoked or an account suspended."""
    services, count = pool.services, 60
    deaf_live = InProcessLive()
    async with open_caches(deaf_live, services.settings) as caches:
        services = replace(services, caches=caches)
        keys = [await _key(pool) for _ in range(count)]
        for key in keys:
            assert await _load(services, key) is not None
        loop = CallerRenewalLoop(services)
        await loop.run_once()
        assert len(caches.node_callers) == count
        await pool.sql("UPDATE node_keys SET revoked_at = now() WHERE id = $1", keys[0].node_key_id)
        await loop.run_once()
        assert len(caches.node_callers) == count - 1
        assert await _load(services, keys[0]) is None
        await pool.sql("UPDATE accounts SET suspended_at = now() WHERE id = $1", pool.bob)
        await loop.run_once()
        caller = await _load(services, keys[1])
        assert caller is not None
        assert caller.account.suspended_at is not None
    await deaf_live.close()


async def _key(pool: Pool) -> Owner:
    key_id = f"nodekey_{secrets.token_hex(13)}"
    expires_at = datetime.now(UTC) + timedelta(days=1)
    await pool.sql(
        "INSERT INTO node_keys (id, account_id, address, machine, origin, scopes, nonce,"
        " signature, issued_at, expires_at)"
        " VALUES ($1, $2, $3, 'm', 'o', '{node}', $1, '0x', now(), $4)",
        *(key_id, pool.bob, f"0x{secrets.token_hex(20)}", expires_at),
    )
    return Owner(pool.bob, key_id)


async def _load(services: Services, key: Owner) -> NodeCaller | None:
    async def read() -> NodeCaller | None:
        assert key.node_key_id is not None
        async with services.database.statement() as connection:
            return await node_keys.caller(connection, key.node_key_id, key.account_id)

    return await services.caches.node_callers.load(key.node_key_id, read)
