"""What alerts are derived from: nodes, devices, terms, and what instances say about themselves."""

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from potluck.decide.alerts.conditions import (
    DeviceTrouble,
    InstanceReading,
    LostNode,
    RewardsReading,
)
from potluck.model.ids import NodeId
from potluck.store.database import Connection
from potluck.store.scheduler.leader import Leadership
from potluck.store.sql_files import load
from potluck.wire import codec

_sql = load("alerts")
# More of one kind need no more messages. Several times as many as one account may have.
_MOST = 5_000


async def list_lost_nodes(connection: Connection, lapse: timedelta) -> tuple[LostNode, ...]:
    rows = await connection.fetch(*_sql.lost_nodes(lapse=lapse, limit=_MOST))
    return tuple(msgspec.convert(dict(row), LostNode) for row in rows)


async def list_devices(connection: Connection) -> tuple[DeviceTrouble, ...]:
    rows = await connection.fetch(*_sql.devices(limit=_MOST))
    return tuple(msgspec.convert(dict(row), DeviceTrouble) for row in rows)


async def has_online_node(connection: Connection) -> bool:
    return bool(await connection.fetchval(*_sql.has_online_node()))


async def read_rewards(connection: Connection) -> RewardsReading:
    return RewardsReading(**await connection.fetchrow(*_sql.rewards()))


async def mark_heat(
    connection: Connection, node_id: NodeId, heat: Mapping[str, float | None]
) -> None:
    """The temperature of each device by its uuid if it is hot, and None if it is not."""
    await connection.execute(
        *_sql.mark_heat(
            node_id=node_id,
            uuids=list(heat),
            are_hot=[celsius is not None for celsius in heat.values()],
            celsius=[celsius or 0.0 for celsius in heat.values()],
        )
    )


async def put_reading(connection: Connection, reading: InstanceReading) -> None:
    await connection.execute(*_sql.put_reading(reading=reading))


async def list_readings(connection: Connection, age: timedelta) -> tuple[InstanceReading, ...]:
    rows = await connection.fetch(*_sql.readings(age=age))
    return tuple(codec.decode_json(row["reading"], InstanceReading) for row in rows)


async def delete_old_readings(connection: Connection, retention: timedelta, limit: int) -> int:
    gone: int = await connection.fetchval(*_sql.delete_old_readings(kept=retention, limit=limit))
    return gone


async def record_term(connection: Connection, leadership: Leadership) -> None:
    await connection.execute(*_sql.record_term(leadership=leadership))


async def count_terms(connection: Connection, age: timedelta) -> int:
    count: int = await connection.fetchval(*_sql.terms_begun(age=age))
    return count


async def delete_old_terms(connection: Connection, retention: timedelta, limit: int) -> int:
    gone: int = await connection.fetchval(*_sql.delete_old_terms(kept=retention, limit=limit))
    return gone
