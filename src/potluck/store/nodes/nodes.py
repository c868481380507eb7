"""Nodes and their devices: registered, seen, silent, left."""

from datetime import timedelta
from typing import Any

from msgspec import Struct

from potluck.model.bounded_types import ShortText
from potluck.model.device import DeviceDescription, Standing
from potluck.model.error import Conflict, NotFound
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.model.node import NodeState, SandboxReport
from potluck.store.database import Connection
from potluck.store.new_ids import new_device_id, new_node_id
from potluck.store.nodes import pending_requests
from potluck.store.nodes.device_list import chooses_accounts, redact_terms, visible_state
from potluck.store.sql_files import bind_many, load
from potluck.wire import codec
from potluck.wire.consumer import DeviceView, NodeView
from potluck.wire.owner_request import Wish
from potluck.wire.provider import RegisterNode

_sql = load("nodes")
# Of a page of nodes; its last node may exceed it.
_PAGE_DEVICES = 256


class Owner(Struct, frozen=True):
    """A node's account, and the node key that may speak for it."""

    account_id: AccountId
    node_key_id: str | None = None


class RegisteredNode(Struct, frozen=True):
    node_id: NodeId
    device_ids: list[DeviceId]  # in the order of the description
    was_online: bool


class SilentNode(Struct, frozen=True):
    id: NodeId
    account_id: AccountId


class _ShownDescription(Struct, frozen=True):
    """What a view shows of a node's description; its devices have rows of their own."""

    platform: ShortText
    potluck_version: ShortText
    python_version: ShortText
    sandbox: SandboxReport
    more_pythons: tuple[ShortText, ...] = ()


async def find_registered(
    connection: Connection, owner: Owner, node_id: NodeId | None
) -> NodeId | None:
    """The node that this key registered before, regardless of the id the machine sent."""
    node = await connection.fetchval(*_sql.known(owner=owner, node_id=node_id))
    return None if node is None else NodeId(node)


async def find_by_key(connection: Connection, node_key_id: str) -> NodeId | None:
    """The node that a key speaks for, unless it has left."""
    node = await connection.fetchval(*_sql.of_key(node_key_id=node_key_id))
    return None if node is None else NodeId(node)


async def register(
    connection: Connection, owner: Owner, known_id: NodeId | None, offer: RegisterNode, most: int
) -> RegisteredNode:
    """Stores the node's description; a known node keeps its id and its devices' ids."""
    if await connection.fetchval(*_sql.count_others(owner=owner, node_id=known_id)) >= most:
        raise _too_many(most)
    node_id = known_id or new_node_id()
    write = _sql.insert if known_id is None else _sql.update
    before = await connection.fetchval(
        *write(
            node_id=node_id,
            owner=owner,
            own_tasks_only=offer.own_tasks_only,
            description=offer.description,
        )
    )
    await connection.execute(*_sql.forget_devices(node_id=node_id))
    devices = enumerate(offer.description.devices)
    calls = [_offer(node_id, position, device) for position, device in devices]
    rows = await connection.fetchmany(*bind_many(_sql.offer_device, calls))
    device_ids = [DeviceId(row["id"]) for row in rows]
    return RegisteredNode(node_id, device_ids, before == NodeState.ONLINE)


def _offer(node_id: NodeId, position: int, device: DeviceDescription) -> dict[str, Any]:
    return {
        "device_id": new_device_id(),
        "node_id": node_id,
        "device": device,
        "position": position,
    }


async def mark_seen(
    connection: Connection, node_id: NodeId, owner: Owner, precision_seconds: float
) -> None:
    """Marks the node as seen; skips the write if it was seen within `precision_seconds`."""
    precision = timedelta(seconds=precision_seconds)
    row = await connection.fetchval(
        *_sql.hear(node_id=node_id, owner=owner, min_heartbeat_age=precision)
    )
    if row is None:
        raise no_such_node(node_id)


async def mark_online(connection: Connection, node_id: NodeId, owner: Owner) -> bool:
    """Lets the node get work again; returns whether it had been silent."""
    before = await connection.fetchval(*_sql.come_back(node_id=node_id, owner=owner))
    return bool(before == NodeState.SILENT)


async def stop_polling(connection: Connection, node_id: NodeId, owner: Owner) -> None:
    """Gives the node no work until it polls again."""
    await connection.execute(*_sql.stop_polling(node_id=node_id, owner=owner))


async def leave(connection: Connection, node_id: NodeId, owner: Owner) -> bool:
    """False if it had left before."""
    is_first = await connection.fetchval(*_sql.leave(node_id=node_id, owner=owner))
    if is_first is None:
        raise no_such_node(node_id)
    return bool(is_first)


async def mark_silent(connection: Connection, seconds: float) -> list[SilentNode]:
    rows = await connection.fetch(*_sql.fall_silent(silent_after=timedelta(seconds=seconds)))
    return [SilentNode(row["id"], row["account_id"]) for row in rows]


async def mark_all_silent(connection: Connection) -> None:
    """For a restored database: each node is online again after its first request."""
    await connection.execute(*_sql.silence_all())


async def lock_own(
    connection: Connection, node_id: NodeId, account_id: AccountId, *, also_left: bool
) -> str:
    """Locks a node of this account; returns its name."""
    row = await connection.fetchrow(
        *_sql.lock_own(node_id=node_id, account_id=account_id, include_left=also_left)
    )
    if row is None:
        raise no_such_node(node_id)
    name: str = row["name"]
    return name


async def get(
    connection: Connection, node_id: NodeId, viewer_id: AccountId, *, also_left: bool = False
) -> NodeView:
    """Any account's node; one that has left only with `also_left`."""
    rows = await connection.fetch(*_sql.get(node_id=node_id, include_left=also_left))
    views = await _views(connection, rows, viewer_id)
    if not views:
        raise _unknown_node(node_id)
    return views[0]


async def page(
    connection: Connection,
    viewer_id: AccountId,
    behind: NodeId | None,
    limit: int,
    only_own: bool = False,
) -> tuple[list[NodeView], bool]:
    """In the order of their ids, and whether there may be more."""
    after_id, most = behind or "", _PAGE_DEVICES
    if only_own:
        query = _sql.own_page(
            account_id=viewer_id, after_id=after_id, limit=limit, max_devices=most
        )
    else:
        query = _sql.page(after_id=after_id, limit=limit, max_devices=most)
    rows = await connection.fetch(*query)
    views = await _views(connection, rows, viewer_id)
    is_full = sum(len(view.devices) for view in views) >= _PAGE_DEVICES
    return views, is_full or len(views) == limit


async def cordon(connection: Connection, node_id: NodeId, reason: str) -> None:
    if await connection.fetchval(*_sql.cordon(node_id=node_id, reason=reason)) is None:
        raise _unknown_node(node_id)


async def uncordon(connection: Connection, node_id: NodeId) -> None:
    if await connection.fetchval(*_sql.uncordon(node_id=node_id)) is None:
        raise _unknown_node(node_id)


async def lock(connection: Connection, node_id: NodeId) -> tuple[Owner, NodeState]:
    """Locks a node of any account; returns its owner and its state."""
    row = await connection.fetchrow(*_sql.lock(node_id=node_id))
    if row is None:
        raise _unknown_node(node_id)
    return Owner(row["account_id"], row["node_key_id"]), NodeState(row["state"])


async def _views(connection: Connection, rows: list[Any], viewer_id: AccountId) -> list[NodeView]:
    own = {row["id"] for row in rows if row["account_id"] == viewer_id}
    pending = await pending_requests.list_pending(connection, own) if own else {}
    devices: dict[str, list[DeviceView]] = {}
    for row in await connection.fetch(*_sql.devices(node_ids=[row["id"] for row in rows])):
        view = _device_view(row, row["node_id"] in own)
        devices.setdefault(row["node_id"], []).append(view)
    return [
        _view(row, devices.get(row["id"], []), row["id"] in own, pending.get(row["id"], []))
        for row in rows
    ]


def _device_view(row: Any, is_mine: bool) -> DeviceView:
    description = codec.decode_stored(row["description"], DeviceDescription)
    availability, why = visible_state(row, is_mine)
    return DeviceView(
        id=row["id"],
        description=redact_terms(description, is_mine),
        free_milli=row["free_milli"],
        availability=availability,
        why=why,
        chooses_accounts=chooses_accounts(description),
        standing=Standing(row["standing"]),
    )


def _view(row: Any, devices: list[DeviceView], is_mine: bool, pending: list[Wish]) -> NodeView:
    node = codec.decode_stored(row["description"], _ShownDescription)
    return NodeView(
        id=row["id"],
        name=row["name"],
        state=NodeState(row["state"]),
        platform=node.platform,
        potluck_version=node.potluck_version,
        cores=row["cores"],
        memory_bytes=row["memory_bytes"],
        disk_bytes=row["disk_bytes"],
        sandbox=node.sandbox,
        devices=devices,
        is_mine=is_mine,
        heartbeat_at=row["heartbeat_at"],
        own_tasks_only=row["own_tasks_only"],
        wishes=pending,
        python_version=node.python_version,
        more_pythons=node.more_pythons,
        cordoned_at=row["cordoned_at"],
        cordoned_for=row["cordoned_for"],
    )


def _too_many(most: int) -> Conflict:
    return Conflict(
        f"This wallet has {most} nodes, which is the limit.",
        "Revoke the keys of machines that are gone (`potluck provider keys`),"
        " or ask the operator to raise POTLUCK_NODES_PER_ACCOUNT.",
    )


def _unknown_node(node_id: str) -> NotFound:
    return NotFound(f"There is no node {node_id} here.", "`potluck nodes` lists them.")


def no_such_node(node_id: str) -> NotFound:
    return NotFound(f"You have no node {node_id}.", "`potluck nodes` lists yours.")
