"""Alerts and their messages are kept in the database, and the next leader continues with them."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from potluck.decide.alerts.conditions import Condition
from potluck.decide.alerts.transitions import Alert
from potluck.live.in_process import InProcessLive
from potluck.model.alert import AlertName, AlertState
from potluck.model.device import Health
from potluck.model.error import InvalidInput, Unavailable
from potluck.model.ids import AccountId, NodeId
from potluck.server import topics
from potluck.server.alerts.delivery import deliver_once
from potluck.server.alerts.destinations import AlertDestinations
from potluck.server.alerts.evaluate import evaluate
from potluck.server.flow.housekeeping.expire import begin_term
from potluck.server.flow.lease import lease
from potluck.server.health import OK
from potluck.server.leader.findings import LeaderFindings
from potluck.server.leader.memory import LeaderMemory
from potluck.server.loops.alert_watch import AlertWatchLoop
from potluck.server.loops.alerts import AlertLoop
from potluck.server.services import Services
from potluck.store.alerts import alerts, observations
from potluck.store.scheduler import leader
from potluck.wire.consumer import ServerReadiness
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import Heartbeat
from tests.alert_receiver import AlertReceiver, receiving
from tests.server.flow.pool import Pool

DISK = Condition(AlertName.DISK_LOW, "a:1", "a:1 has 1 MiB left on its disk.")
AT_ONCE = dict.fromkeys(AlertName, 0.0)


@pytest.fixture
def destination() -> Iterator[AlertReceiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def services(pool: Pool, destination: AlertReceiver) -> Services:
    """Every alert fires and is sent as soon as its condition is seen."""
    settings = replace(
        pool.services.settings,
        alert_for_seconds=AT_ONCE,
        alert_group_seconds=0.0,
        alert_seconds=0.01,
        alert_retry_seconds=0.01,
    )
    return replace(
        pool.services, settings=settings, alert_destinations=AlertDestinations([destination.url])
    )


async def see(services: Services, *conditions: Condition) -> None:
    await evaluate(services, conditions, set(AlertName))


async def deliver_all(services: Services) -> None:
    while await deliver_once(services):
        pass


def titles(destination: AlertReceiver) -> list[str]:
    return [message.title for message in destination.received]


@pytest.mark.every_postgres
async def test_a_message_is_sent_once_however_often_the_condition_is_seen(
    services: Services, destination: AlertReceiver
) -> None:
    for conditions in ([DISK], [DISK], [DISK], [], []):
        await see(services, *conditions)
        await deliver_all(services)
    assert titles(destination) == [
        "Potluck: disk almost full",
        "Potluck: Resolved: disk almost full",
    ]


async def test_an_alert_seen_by_several_instances_is_sent_once(
    services: Services, destination: AlertReceiver
) -> None:
    await asyncio.gather(*(see(services, DISK) for _ in range(8)))
    await asyncio.gather(*(deliver_once(services) for _ in range(8)))
    assert titles(destination) == ["Potluck: disk almost full"]


async def test_a_take_over_neither_loses_nor_repeats_a_message(
    pool: Pool, services: Services, destination: AlertReceiver
) -> None:
    """The first leader dies between the alert and its message, the second after it."""
    await evaluate(services, [DISK], set(AlertName), pool.leads)
    async with services.database.transaction() as connection:
        await connection.execute("UPDATE leader SET expires_at = now()")
        following = await leader.acquire_or_renew(connection, "another", 3600)
    assert following is not None
    await evaluate(services, [], set(AlertName), pool.leads)
    await evaluate(services, [DISK], set(AlertName), following)
    await deliver_all(services)
    assert titles(destination) == ["Potluck: disk almost full"], "the old leader resolves nothing"
    await evaluate(services, [DISK], set(AlertName), following)
    await deliver_all(services)
    assert len(destination.received) == 1


async def test_a_message_whose_sender_was_killed_is_sent_by_another(
    services: Services, pool: Pool, destination: AlertReceiver
) -> None:
    await see(services, DISK)
    await pool.sql(
        "UPDATE alert_messages SET attempts = 1, claimed_until = now() + interval '1 minute'"
    )
    assert await deliver_once(services) == 0, "its claim still runs"
    await pool.sql("UPDATE alert_messages SET claimed_until = now()")
    await deliver_all(services)
    assert titles(destination) == ["Potluck: disk almost full"]


async def test_a_destination_that_fails_is_tried_again_and_gets_its_messages_in_order(
    pool: Pool, services: Services, destination: AlertReceiver, capsys: pytest.CaptureFixture[str]
) -> None:
    destination.status = 500
    await see(services, DISK)
    await see(services)
    assert await deliver_once(services) == 1, "the second waits for the first"
    destination.status = 200
    await pool.sql("UPDATE alert_messages SET due_at = now()")
    await deliver_all(services)
    assert [message.kind for message in destination.received] == ["failure", "success"]
    logged = capsys.readouterr().out
    assert "an alert could not be sent" in logged and "a-secret-path" not in logged


async def test_a_message_is_given_up_after_its_time(
    services: Services, pool: Pool, destination: AlertReceiver
) -> None:
    destination.status = 500
    await see(services, DISK)
    await pool.sql("UPDATE alert_messages SET created_at = now() - interval '2 hours'")
    await deliver_once(services)
    destination.status = 200
    await see(services)
    await deliver_all(services)
    assert titles(destination) == ["Potluck: Resolved: disk almost full"]


async def test_a_destination_that_hangs_takes_no_longer_than_it_may(services: Services) -> None:
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await finished_event.wait()
        writer.close()

    finished_event = asyncio.Event()
    listener = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    slow = AlertDestinations([f"json://127.0.0.1:{port}/a-secret-path"])
    async with listener:
        (result,) = await slow.send_to_all("title", "body", False, seconds=0.1)
        finished_event.set()
    assert result.problem == "it did not answer within 0.1 s"


async def are_silenced(services: Services) -> list[bool]:
    async with services.database.transaction() as connection:
        silences = alerts.as_silences(await alerts.list_silences(connection))
        listed = await alerts.page(connection, 2**62, 10, silences, services.clock.now())
    return [alert.is_silenced for alert in listed]


async def test_a_silenced_alert_is_sent_when_the_silence_ends(
    services: Services, pool: Pool, destination: AlertReceiver
) -> None:
    async with services.database.transaction() as connection:
        silence = await alerts.add_silence(
            connection, pool.alice, AlertName.DISK_LOW, None, 3600.0, ""
        )
    await see(services, DISK)
    await deliver_all(services)
    assert destination.received == []
    assert await are_silenced(services) == [True]
    async with services.database.transaction() as connection:
        assert await alerts.end_silence(connection, silence.id)
        assert not await alerts.end_silence(connection, silence.id)
    await see(services, DISK)
    await deliver_all(services)
    assert titles(destination) == ["Potluck: disk almost full"]
    assert await are_silenced(services) == [False]


async def test_quiet_hours_are_those_of_the_clock_on_the_wall(
    services: Services, destination: AlertReceiver
) -> None:
    node = Condition(AlertName.NODE_LOST, "node_1", "attic has been silent for 5 min.")
    quiet = replace(services, settings=replace(services.settings, alert_quiet_hours="mon-sun"))
    await see(quiet, DISK, node)
    await deliver_all(quiet)
    assert titles(destination) == ["Potluck: disk almost full"], "it is critical"
    await see(services, DISK, node)
    await deliver_all(services)
    assert titles(destination)[1:] == ["Potluck: node lost"]


async def events(pool: Pool, account_id: AccountId) -> list[str]:
    sentences: list[str] = await pool.sql(
        "SELECT array_agg(kind ORDER BY id) FROM events WHERE account_id = $1"
        " AND kind <> ALL(ARRAY['node.online', 'node.silent'])",
        account_id,
    )
    return sentences or []


class LeaderDuty:
    """Evaluates as the leader does, again and again."""

    def __init__(self, services: Services, pool: Pool) -> None:
        memory, findings = LeaderMemory(services), LeaderFindings()
        self._loop = AlertLoop(services, pool.leads, memory, findings)

    async def run(self) -> None:
        await self._loop.run_once()


async def test_owners_get_events_of_a_lost_node_and_its_return(
    services: Services, pool: Pool
) -> None:
    node = await pool.offer()
    duty = LeaderDuty(services, pool)
    await pool.sql("UPDATE nodes SET state = 'silent'")
    await duty.run()
    await duty.run()
    assert await events(pool, pool.bob) == ["node.lost"]
    await pool.beat(node.node_id)
    await duty.run()
    assert await events(pool, pool.bob) == ["node.lost", "node.returned"]


async def test_an_alert_does_not_end_because_there_are_too_many(
    services: Services, pool: Pool, destination: AlertReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of a node nor of a device; later ones have their turn when one has ended."""
    monkeypatch.setattr(observations, "_MOST", 1)
    first, second = [(await pool.offer()).node_id for _ in range(2)]
    duty = LeaderDuty(services, pool)
    firing = "SELECT string_agg(subject, ' ') FROM alerts WHERE state = 'firing' AND name = $1"
    hot = "UPDATE devices SET hot_since = now(), hot_celsius = 99 WHERE node_id = $1"
    await pool.sql(hot, second)
    await duty.run()
    device = await pool.sql(firing, AlertName.DEVICE_HOT)
    await pool.sql(hot, first)
    await duty.run()
    assert device and await pool.sql(firing, AlertName.DEVICE_HOT) == device
    for node_id in (first, second):
        await pool.sql("UPDATE nodes SET state = 'silent' WHERE id = $1", node_id)
        await duty.run()
        assert await pool.sql(firing, AlertName.NODE_LOST) == first
    await pool.beat(first)
    await duty.run()
    assert await pool.sql(firing, AlertName.NODE_LOST) == second


async def test_a_node_that_left_did_not_return_and_one_that_is_long_gone_is_not_lost(
    services: Services, pool: Pool
) -> None:
    await pool.offer()
    duty = LeaderDuty(services, pool)
    await pool.sql("UPDATE nodes SET state = 'silent'")
    await duty.run()
    await pool.sql("UPDATE nodes SET state = 'left'")
    await duty.run()
    assert await events(pool, pool.bob) == ["node.lost"]
    await pool.sql("UPDATE nodes SET state = 'silent', heartbeat_at = now() - interval '8 days'")
    await duty.run()
    assert await events(pool, pool.bob) == ["node.lost"]


async def heat(pool: Pool, services: Services, node_id: NodeId, **reading: object) -> None:
    status = DeviceStatus(f"{pool.machines[node_id]}-0", **reading)  # type: ignore[arg-type]
    await lease.heartbeat(services, pool.bobs, node_id, Heartbeat(devices=(status,)))


async def test_a_device_is_hot_until_it_has_cooled_down_and_its_owner_is_notified(
    services: Services, pool: Pool
) -> None:
    node_id = (await pool.offer()).node_id
    duty = LeaderDuty(services, pool)
    is_hot = "SELECT hot_since IS NOT NULL FROM devices"
    for celsius, hot in ((89.0, False), (90.0, True), (86.0, True), (84.0, False)):
        await heat(pool, services, node_id, temperature_celsius=celsius)
        await duty.run()
        assert await pool.sql(is_hot) is hot
    await heat(pool, services, node_id, health=Health.THROTTLED)
    await duty.run()
    assert await events(pool, pool.bob) == ["device.hot", "device.cool", "device.hot"]


async def test_each_term_is_counted(services: Services, pool: Pool) -> None:
    for term in range(8):
        await begin_term(services, replace(pool.leads, term=pool.leads.term + term))
    await LeaderDuty(services, pool).run()
    assert await pool.sql("SELECT detail FROM alerts WHERE state = 'firing'") == (
        "8 terms began within 10 min 0 s."
    )


async def test_a_new_leader_resolves_no_violation_before_it_has_checked(
    services: Services, pool: Pool
) -> None:
    wrong = Condition(AlertName.INVARIANT_VIOLATED, "node_1", "node_1 is wrong.")
    await see(services, wrong)
    duty = LeaderDuty(services, pool)
    await duty.run()
    assert await pool.sql("SELECT state FROM alerts") == "firing"


async def test_an_outage_that_several_instances_saw_is_recorded_once(
    services: Services, pool: Pool, destination: AlertReceiver
) -> None:
    """Also if it was pending before, and if one of them is so late that its end was told."""
    no_leader = Condition(
        AlertName.NO_LEADER, "pool", "The database answers, but no instance leads."
    )
    patient = replace(services, settings=replace(services.settings, alert_for_seconds={}))
    await see(patient, no_leader)
    now = services.clock.now()
    outage = Alert(
        *(AlertName.NO_LEADER, "pool", AlertState.FIRING, "The database does not answer.", now),
        fired_at=now,
        notified_at=now,
    )
    for _ in range(2):
        async with services.database.transaction() as connection:
            await alerts.record_outage(connection, outage)
    await see(services)
    async with services.database.transaction() as connection:
        await alerts.record_outage(connection, outage)
    await see(services)
    await deliver_all(services)
    assert titles(destination) == ["Potluck: Resolved: no leader"]


def readiness(database: str, leader: str = OK) -> ServerReadiness:
    return ServerReadiness("", "0.1.0", {"database": database, "leader": leader})


async def test_one_instance_reports_that_the_database_is_unavailable(
    services: Services, pool: Pool, destination: AlertReceiver
) -> None:
    """Nothing is asked of the database meanwhile; when it is back, its end is told. Watched backups
    change nothing."""
    settings = replace(services.settings, alert_backup_seconds=60.0)
    services = replace(services, settings=settings)
    instances = [AlertWatchLoop(services, None) for _ in range(2)]
    services.health.latest = readiness("does not answer")
    for _ in range(3):
        for instance in instances:
            await instance.watch_once()
            await instance.tell_once()
    assert titles(destination) == ["Potluck: no leader"]
    assert await pool.sql("SELECT count(*) FROM alerts") == 0
    services.health.latest = readiness(OK)
    for instance in instances:
        await instance.watch_once()
        await instance.tell_once()
    await see(services)
    await deliver_all(services)
    assert titles(destination)[1:] == ["Potluck: Resolved: no leader"]


async def recovered(services: Services, *instances: AlertWatchLoop) -> None:
    """The database is back, the instances notice it in this order, and then the leader."""
    services.health.latest = readiness(OK)
    for instance in instances:
        await instance.watch_once()
        await instance.tell_once()
    await see(services)
    await deliver_all(services)


async def test_each_outage_of_the_database_is_reported(
    services: Services, destination: AlertReceiver
) -> None:
    instances = [AlertWatchLoop(services, None) for _ in range(2)]
    await recovered(services, *instances)
    for _ in range(3):
        services.health.latest = readiness("does not answer")
        for instance in instances:
            await instance.watch_once()
        await recovered(services, *instances)
        await recovered(services, *instances)
    assert titles(destination) == ["Potluck: no leader", "Potluck: Resolved: no leader"] * 3


async def test_the_end_of_an_outage_is_reported_by_any_instance(
    services: Services, destination: AlertReceiver
) -> None:
    teller, other = (AlertWatchLoop(services, None) for _ in range(2))
    services.health.latest = readiness("does not answer")
    for instance in (teller, other):
        await instance.watch_once()
    await recovered(services, other)
    await recovered(services, teller)
    assert titles(destination) == ["Potluck: no leader", "Potluck: Resolved: no leader"]


async def test_an_outage_that_ends_while_an_instance_asks_whether_to_tell_it_has_an_end(
    services: Services, destination: AlertReceiver
) -> None:
    class SlowLive(InProcessLive):
        async def take(self, key: str, per_second: float, burst: int) -> float:
            await recovered(services, instance)
            return await super().take(key, per_second, burst)

    instance = AlertWatchLoop(replace(services, live=SlowLive()), None)
    services.health.latest = readiness("does not answer")
    await instance.watch_once()
    await recovered(services, instance)
    assert titles(destination) == ["Potluck: no leader", "Potluck: Resolved: no leader"]


async def test_an_outage_reported_during_recording_has_an_end(
    services: Services, pool: Pool, destination: AlertReceiver
) -> None:
    instance = AlertWatchLoop(services, None)
    told_by_another = topics.outage(AlertName.NO_LEADER, 0)
    await services.live.take(told_by_another, 0.001, 1)
    services.health.latest = readiness("does not answer")
    await instance.watch_once()
    services.health.latest = readiness(OK)
    async with services.database.transaction() as connection, asyncio.timeout(30):
        await alerts.lock(connection)
        recording = asyncio.create_task(instance.tell_once())
        while not await pool.sql("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            await asyncio.sleep(0.01)
        services.health.latest = readiness("does not answer")
        await services.live.close()  # forgets that it was told
        await instance.watch_once()
    await recording
    await recovered(services, instance)
    assert titles(destination) == ["Potluck: no leader", "Potluck: Resolved: no leader"]


async def test_a_full_disk_of_the_database_is_reported_though_nothing_can_be_stored(
    services: Services, destination: AlertReceiver
) -> None:
    """Once, also if PostgreSQL ends meanwhile, which is another alert."""
    instances = [AlertWatchLoop(services, None) for _ in range(2)]
    with pytest.raises(Unavailable):
        async with services.database.transaction() as connection:
            await connection.execute(
                "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = 'disk_full'; END $$"
            )
    for state in (OK, "does not answer", OK):
        services.health.latest = readiness(state)
        for instance in instances:
            await instance.watch_once()
            await instance.tell_once()
    assert titles(destination) == ["Potluck: disk almost full", "Potluck: no leader"]
    services.database._disk_full_until = 0.0
    await recovered(services, *instances)
    assert titles(destination)[2:] == [
        "Potluck: Resolved: no leader",
        "Potluck: Resolved: disk almost full",
    ]


async def test_any_instance_reports_that_there_is_no_leader(
    services: Services, destination: AlertReceiver
) -> None:
    services.health.latest = readiness(OK, "no instance leads, so no task starts")
    for _ in range(2):
        for instance in [AlertWatchLoop(services, None) for _ in range(2)]:
            await instance.tell_once()
    await deliver_all(services)
    assert titles(destination) == ["Potluck: no leader"]


async def test_old_alerts_are_forgotten(services: Services, pool: Pool) -> None:
    await see(services, DISK)
    await see(services)
    await pool.sql("UPDATE alerts SET resolved_at = now() - interval '2 days'")
    async with services.database.transaction() as connection:
        assert await alerts.delete_old(connection, timedelta(days=3), 10) == 0
        assert await alerts.delete_old(connection, timedelta(days=1), 10) == 1


def test_a_wrong_destination_is_named_without_its_secrets() -> None:
    with pytest.raises(InvalidInput, match="POTLUCK_ALERT_URLS") as raised:
        AlertDestinations(["nothing://a-secret-path"])
    assert "a-secret-path" not in str(raised.value)
