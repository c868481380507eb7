"""Device status: availability and health of a node's devices, from each heartbeat.

Planning data is kept in the database, and written only when it changes. Telemetry of the last hour
is in `live`, for display only, and may be lost.
"""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.device import Availability, Health
from potluck.model.event import EventKind
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.server import topics
from potluck.server.flow.notify.notify import record_events, wake_leader
from potluck.server.flow.settle.end_many import withdraw_unfetched
from potluck.server.services import Services
from potluck.store.alerts import observations
from potluck.store.attempts.leases import HeartbeatResult
from potluck.store.database import Connection
from potluck.store.events.outbox import Event
from potluck.store.nodes import availability, device_list
from potluck.store.nodes.availability import AvailabilityChange
from potluck.wire import codec
from potluck.wire.consumer import NodeView, PoolDevice
from potluck.wire.device_status import DeviceSample, DeviceStatus
from potluck.wire.own_machines import DeviceHistory
from potluck.wire.provider import Heartbeat, RegisterNode

_HISTORY = timedelta(hours=1)
# One every 20 seconds makes 180; nodes send more when something changes.
_MAX_SAMPLES = 360
# Limits the notices about a device that alternates between sick and well.
_NOTICES_PER_HOUR = 6
# A device at the limit does not alternate between hot and cool.
_COOLING_CELSIUS = 5.0


class DeviceReading(Struct, frozen=True, array_like=True):
    """A device's reading without field names, for compactness."""

    name: bytes  # a short hash of the uuid
    health: Health
    utilisation_percent: float | None
    temperature_celsius: float | None
    memory_used_bytes: int | None
    power_watts: float | None
    memory_errors: int | None
    others: int | None


_MEASURED = DeviceReading.__struct_fields__[1:]


class Telemetry(Struct, frozen=True, array_like=True):
    """A node's readings from one heartbeat."""

    at: datetime
    load_percent: float
    memory_used_bytes: int
    devices: tuple[DeviceReading, ...]

    def sample(self, uuid: str, is_mine: bool) -> DeviceSample | None:
        name = _name(uuid)
        reading = next((device for device in self.devices if device.name == name), None)
        if reading is None:
            return None
        values = {field: getattr(reading, field) for field in _MEASURED}
        return DeviceSample(self.at, **values | ({} if is_mine else {"others": None}))


async def record_heartbeat(
    services: Services,
    account_id: AccountId,
    node_id: NodeId,
    beat: Heartbeat,
    state: HeartbeatResult,
) -> None:
    """Usually nothing has changed, and only `live` is written."""
    statuses = _known_statuses(state.known, beat.devices)
    known = state.known
    changed = [s for s in statuses if known[s.uuid] != (s.availability, s.why)]
    if changed:
        async with services.database.transaction() as connection:
            changes = await availability.record_statuses(connection, node_id, beat.wish, changed)
            await _notify_owner(services, connection, account_id, node_id, changes, changed)
        if any(change.is_closed for change in changes):
            await withdraw_unfetched(services, node_id)
        if any(change.availability is not change.before for change in changes):
            await wake_leader(services)
    await _record_heat(services, node_id, statuses, state.hot)
    services.metrics.observe_temperatures(status.temperature_celsius for status in statuses)
    packed = codec.encode_packed(_telemetry(beat, statuses, state.now))
    live = services.live
    await asyncio.gather(
        live.put(topics.telemetry(node_id), packed, services.settings.silent_after_seconds),
        live.append(topics.samples(node_id), packed, _MAX_SAMPLES, _HISTORY.total_seconds()),
    )


async def record_registration(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    node_id: NodeId,
    offer: RegisterNode,
) -> bool:
    """Part of the registration, so that a device gets no work before its status is known.

    Returns whether a device that took new work before takes none now.
    """
    reported = {status.uuid: status for status in offer.statuses}
    statuses = [
        reported.get(device.uuid) or _default_status(device.uuid, device.terms.is_paused)
        for device in offer.description.devices
    ]
    changes = await availability.record_statuses(connection, node_id, offer.wish, statuses)
    await _notify_owner(services, connection, account_id, node_id, changes, statuses)
    return any(change.is_closed for change in changes)


async def with_telemetry(services: Services, views: list[NodeView]) -> list[NodeView]:
    """Adds the latest telemetry to the nodes, where it is still known."""
    telemetry = await _telemetries(services, [node.id for node in views])
    return [_with_telemetry(node, telemetry[node.id]) for node in views]


async def with_samples(services: Services, devices: list[PoolDevice]) -> list[PoolDevice]:
    telemetry = await _telemetries(services, {device.node_id for device in devices})
    return [
        replace(
            device,
            sample=_sample(telemetry[device.node_id], device.description.uuid, device.is_mine),
        )
        for device in devices
    ]


async def history(services: Services, account_id: AccountId, device_id: DeviceId) -> DeviceHistory:
    async with services.database.transaction() as connection:
        node_id, uuid = await device_list.find_own(connection, device_id, account_id)
    since = services.clock.now() - _HISTORY
    series = await services.live.series(topics.samples(node_id))
    telemetry = [codec.decode_packed(item, Telemetry) for item in series]
    samples = [item.sample(uuid, is_mine=True) for item in telemetry if item.at >= since]
    return DeviceHistory(device_id, [item for item in samples if item is not None])


async def _telemetries(
    services: Services, node_ids: Collection[NodeId]
) -> dict[NodeId, Telemetry | None]:
    packed = await services.live.get_many([topics.telemetry(node_id) for node_id in node_ids])
    return {
        node_id: None if data is None else codec.decode_packed(data, Telemetry)
        for node_id, data in zip(node_ids, packed, strict=True)
    }


def _with_telemetry(node: NodeView, telemetry: Telemetry | None) -> NodeView:
    if telemetry is None:
        return node
    return replace(
        node,
        load_percent=telemetry.load_percent,
        memory_used_bytes=telemetry.memory_used_bytes,
        devices=[
            replace(device, sample=telemetry.sample(device.description.uuid, node.is_mine))
            for device in node.devices
        ],
    )


def _sample(telemetry: Telemetry | None, uuid: str, is_mine: bool) -> DeviceSample | None:
    return None if telemetry is None else telemetry.sample(uuid, is_mine)


def _known_statuses(
    known: Mapping[str, tuple[str, str]], statuses: Sequence[DeviceStatus]
) -> list[DeviceStatus]:
    """The last status of each device that the node has; others are dropped."""
    return list({status.uuid: status for status in statuses if status.uuid in known}.values())


def _default_status(uuid: str, is_paused: bool) -> DeviceStatus:
    if is_paused:
        return DeviceStatus(uuid, Availability.PAUSED, "Its owner has paused it.")
    return DeviceStatus(uuid)


async def _notify_owner(
    services: Services,
    connection: Connection,
    account_id: AccountId,
    node_id: NodeId,
    changes: Sequence[AvailabilityChange],
    statuses: Sequence[DeviceStatus],
) -> None:
    """Records an event if a device became sick or recovered."""
    health = {status.uuid: status.health for status in statuses}
    for change in changes:
        is_sick, was_sick = (
            state is Availability.SICK for state in (change.availability, change.before)
        )
        if is_sick == was_sick or not await _may_notify(services, change.device_id):
            continue
        kind = EventKind.DEVICE_SICK if is_sick else EventKind.DEVICE_WELL
        data = {"device_id": change.device_id, "health": health[change.uuid], "why": change.why}
        await record_events(connection, Event(account_id, kind, node_id=node_id, data=data))


async def _may_notify(services: Services, device_id: DeviceId) -> bool:
    per_second = _NOTICES_PER_HOUR / timedelta(hours=1).total_seconds()
    return not await services.live.take(
        topics.device_news(device_id), per_second, _NOTICES_PER_HOUR
    )


async def _record_heat(
    services: Services, node_id: NodeId, statuses: Sequence[DeviceStatus], hot: frozenset[str]
) -> None:
    """Written only when a device becomes hot or cools down."""
    limit = services.settings.alert_hot_celsius
    heat = {status.uuid: _heat(status, limit, status.uuid in hot) for status in statuses}
    changed = {
        uuid: throttling
        for uuid, throttling in heat.items()
        if (throttling is not None) != (uuid in hot)
    }
    if changed:
        async with services.database.transaction() as connection:
            await availability.lock_node(connection, node_id)
            await observations.mark_heat(connection, node_id, changed)


def _heat(status: DeviceStatus, limit_celsius: float, was_hot: bool) -> float | None:
    """Its temperature if it is hot, and 0 if its driver only says that it is slowed down."""
    celsius = status.temperature_celsius
    limit = limit_celsius - _COOLING_CELSIUS if was_hot else limit_celsius
    is_hot = status.health is Health.THROTTLED or (celsius is not None and celsius >= limit)
    return (celsius or 0.0) if is_hot else None


def _telemetry(beat: Heartbeat, statuses: Sequence[DeviceStatus], now: datetime) -> Telemetry:
    readings = tuple(
        DeviceReading(_name(status.uuid), *(getattr(status, field) for field in _MEASURED))
        for status in statuses
    )
    return Telemetry(now, beat.load_percent, beat.memory_used_bytes, readings)


def _name(uuid: str) -> bytes:
    return hashlib.blake2b(uuid.encode(), digest_size=8).digest()
