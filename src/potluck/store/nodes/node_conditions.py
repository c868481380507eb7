"""The state of a node and its devices, to explain to its owner why it gets no work."""

from typing import Any

from msgspec import Struct

from potluck.model.device import Availability, Standing
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.node import NodeState
from potluck.store.database import Connection
from potluck.store.nodes.nodes import no_such_node
from potluck.store.sql_files import load

_sql = load("explain")


class OwnDevice(Struct, frozen=True):
    id: DeviceId
    model: str
    standing: Standing
    availability: Availability
    why: str


class OwnNode(Struct, frozen=True):
    id: NodeId
    state: NodeState
    is_polling: bool
    running: int
    finished_attempts: int
    lost_attempts: int
    outlier_attempts: int
    devices: list[OwnDevice]
    is_cordoned: bool = False
    cordoned_for: str = ""


async def own_node(connection: Connection, node_id: NodeId, account_id: AccountId) -> OwnNode:
    row = await connection.fetchrow(*_sql.node(node_id=node_id, account_id=account_id))
    if row is None:
        raise no_such_node(node_id)
    devices = [_device(device) for device in await connection.fetch(*_sql.devices(node_id=node_id))]
    return OwnNode(
        node_id,
        NodeState(row["state"]),
        row["is_polling"],
        row["running"],
        row["finished_attempts"],
        row["lost_attempts"],
        row["outlier_attempts"],
        devices,
        row["is_cordoned"],
        row["cordoned_for"],
    )


def _device(row: Any) -> OwnDevice:
    return OwnDevice(
        row["id"],
        row["model"],
        Standing(row["standing"]),
        Availability(row["availability"]),
        row["why"],
    )
