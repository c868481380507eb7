"""Status: what a node says of its devices with each beat: do they take new work, how do they do?

What matters for planning is kept in the database, and written only where it differs from what was
known. The rest is for eyes: the last hour of it is in `live`, and may be lost.
"""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.device import Availability, Health
from potluck.model.event import EventKind
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.server import topics
from potluck.server.flow.notify.notify import hurry, record_events
from potluck.server.flow.settle.end_many import withdraw_unfetched
from potluck.server.services import Services
from potluck.store.attempts.leases import Beat
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.nodes import availability, device_list
from potluck.store.nodes.availability import Change
from potluck.wire import codec
from potluck.wire.consumer import NodeView, PoolDevice
from potluck.wire.device_status import DeviceSample, DeviceStatus
from potluck.wire.own_machines import DeviceHistory
from potluck.wire.provider import Heartbeat, RegisterNode

_KEPT = timedelta(hours=1)
# A beat every 20 seconds makes 180; nodes beat early when something changes.
_MOST_KEPT = 360
# A device that is sick and well in turn is told of so often in an hour, and no more.
_NEWS_PER_HOUR = 6


class DeviceReading(Struct, frozen=True, array_like=True):
    """How a device did, without the names of the fields: there are many of these."""

    name: bytes  # short, however long the uuid
    health: Health
    utilisation_percent: float | None
    temperature_celsius: float | None
    memory_used_bytes: int | None
    power_watts: float | None
    memory_errors: int | None
    others: int | None


class Telemetry(Struct, frozen=True, array_like=True):
    """What a node said about itself with a heartbeat."""

    at: datetime
    load_percent: float
    memory_used_bytes: int
    devices: tuple[DeviceReading, ...]

    def sample(self, uuid: str, is_mine: bool) -> DeviceSample | None:
        name = _name(uuid)
        told = next((each for each in self.devices if each.name == name), None)
        if told is None:
            return None
        return DeviceSample(
            at=self.at,
            health=told.health,
            utilisation_percent=told.utilisation_percent,
            temperature_celsius=told.temperature_celsius,
            memory_used_bytes=told.memory_used_bytes,
            power_watts=told.power_watts,
            memory_errors=told.memory_errors,
            others=told.others if is_mine else None,
        )


async def record_heartbeat(
    services: Services, account_id: AccountId, node_id: NodeId, beat: Heartbeat, found: Beat
) -> None:
    """In the usual case nothing has changed, and nothing is written but to `live`."""
    said = _said(found.known, beat.devices)
    news = [each for each in said if found.known[each.uuid] != (each.availability, each.why)]
    if news:
        async with services.database.transaction() as connection:
            changes = await availability.tell(connection, node_id, beat.wish, news)
            await _tell_owner(services, connection, account_id, node_id, changes, news)
        if any(each.is_closed for each in changes):
            await withdraw_unfetched(services, node_id)
        if any(each.availability is not each.before for each in changes):
            await hurry(services)
    told = codec.encode_packed(_telemetry(beat, said, found.now))
    await asyncio.gather(
        services.live.put(topics.telemetry(node_id), told, services.settings.silent_after_seconds),
        services.live.append(topics.samples(node_id), told, _MOST_KEPT, _KEPT.total_seconds()),
    )


async def record_registration(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    node_id: NodeId,
    offer: RegisterNode,
) -> bool:
    """With the registration, so that a device is not given work before its node has said more.

    Answers whether one takes nothing new that did before.
    """
    said = {each.uuid: each for each in offer.statuses}
    statuses = [
        said.get(each.uuid) or _unsaid(each.uuid, each.terms.is_paused)
        for each in offer.description.devices
    ]
    changes = await availability.tell(connection, node_id, offer.wish, statuses)
    await _tell_owner(services, connection, account_id, node_id, changes, statuses)
    return any(each.is_closed for each in changes)


async def with_telemetry(services: Services, found: list[NodeView]) -> list[NodeView]:
    """The nodes with what they said lately, as far as it is still known."""
    told = await _telemetries(services, [node.id for node in found])
    return [_with_telemetry(node, told[node.id]) for node in found]


async def with_samples(services: Services, found: list[PoolDevice]) -> list[PoolDevice]:
    told = await _telemetries(services, {each.node_id for each in found})
    return [
        replace(each, sample=_sample(told[each.node_id], each.description.uuid, each.is_mine))
        for each in found
    ]


async def history(services: Services, account_id: AccountId, device_id: DeviceId) -> DeviceHistory:
    async with services.database.transaction() as connection:
        node_id, uuid = await device_list.own(connection, device_id, account_id)
    since = datetime.now(UTC) - _KEPT
    kept = [codec.decode_packed(each, Telemetry) for each in await _series(services, node_id)]
    samples = [each.sample(uuid, is_mine=True) for each in kept if each.at >= since]
    return DeviceHistory(device_id, [each for each in samples if each is not None])


async def _series(services: Services, node_id: NodeId) -> list[bytes]:
    return await services.live.series(topics.samples(node_id))


async def _telemetries(
    services: Services, node_ids: Collection[NodeId]
) -> dict[NodeId, Telemetry | None]:
    told = await services.live.get_many([topics.telemetry(each) for each in node_ids])
    return {
        node_id: None if said is None else codec.decode_packed(said, Telemetry)
        for node_id, said in zip(node_ids, told, strict=True)
    }


def _with_telemetry(node: NodeView, told: Telemetry | None) -> NodeView:
    if told is None:
        return node
    return replace(
        node,
        load_percent=told.load_percent,
        memory_used_bytes=told.memory_used_bytes,
        devices=[
            replace(each, sample=told.sample(each.description.uuid, node.is_mine))
            for each in node.devices
        ],
    )


def _sample(told: Telemetry | None, uuid: str, is_mine: bool) -> DeviceSample | None:
    return None if told is None else told.sample(uuid, is_mine)


def _said(
    known: Mapping[str, tuple[str, str]], statuses: Sequence[DeviceStatus]
) -> list[DeviceStatus]:
    """One for each device that the node has: the last word counts, and nothing else is kept."""
    return list({each.uuid: each for each in statuses if each.uuid in known}.values())


def _unsaid(uuid: str, is_paused: bool) -> DeviceStatus:
    if is_paused:
        return DeviceStatus(uuid, Availability.PAUSED, "Its owner has paused it.")
    return DeviceStatus(uuid)


async def _tell_owner(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    node_id: NodeId,
    changes: Sequence[Change],
    statuses: Sequence[DeviceStatus],
) -> None:
    """That a device fell sick, or is well again."""
    health = {each.uuid: each.health for each in statuses}
    for each in changes:
        is_sick, was_sick = (
            state is Availability.SICK for state in (each.availability, each.before)
        )
        if is_sick == was_sick or not await _may_tell(services, each.device_id):
            continue
        kind = EventKind.DEVICE_SICK if is_sick else EventKind.DEVICE_WELL
        data = {"device_id": each.device_id, "health": health[each.uuid], "why": each.why}
        await record_events(connection, Event(account_id, kind, node_id=node_id, data=data))


async def _may_tell(services: Services, device_id: DeviceId) -> bool:
    per_second = _NEWS_PER_HOUR / timedelta(hours=1).total_seconds()
    return not await services.live.take(topics.device_news(device_id), per_second, _NEWS_PER_HOUR)


def _telemetry(beat: Heartbeat, said: Sequence[DeviceStatus], now: datetime) -> Telemetry:
    told = tuple(
        DeviceReading(
            _name(each.uuid),
            each.health,
            each.utilisation_percent,
            each.temperature_celsius,
            each.memory_used_bytes,
            each.power_watts,
            each.memory_errors,
            each.others,
        )
        for each in said
    )
    return Telemetry(now, beat.load_percent, beat.memory_used_bytes, told)


def _name(uuid: str) -> bytes:
    return hashlib.blake2b(uuid.encode(), digest_size=8).digest()
