"""Models of queries/nodes.sql."""

from datetime import timedelta

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("nodes")


@models(_sql.insert)
def insert(
    data: Data,
    node_id: str,
    account_id: str,
    node_key_id: str | None,
    name: str,
    own_tasks_only: bool,
    description: bytes,
    cores: int,
    memory_bytes: int,
    disk_bytes: int,
) -> list[Row]:
    data.nodes.insert(
        {
            "id": node_id,
            "account_id": account_id,
            "node_key_id": node_key_id,
            "name": name,
            "state": "online",
            "own_tasks_only": own_tasks_only,
            "description": description,
            "cores": cores,
            "memory_bytes": memory_bytes,
            "disk_bytes": disk_bytes,
        }
    )
    return []


@models(_sql.known)
def known(data: Data, account_id: str, node_key_id: str | None, node_id: str | None) -> list[Row]:
    key = data.node_keys.get(node_key_id)
    for node in sorted(data.nodes.of("account", account_id), key=_id):
        registrar = data.node_keys.get(node["node_key_id"])
        is_named = node["id"] == node_id and node["node_key_id"] == node_key_id
        is_of_key = bool(key and registrar and registrar["address"] == key["address"])
        if is_named or is_of_key:
            return [{"id": node["id"]}]
    return []


@models(_sql.of_key)
def of_key(data: Data, node_key_id: str) -> list[Row]:
    node = data.nodes.find("nodes_one_of_key", node_key_id)
    return [{"id": node["id"]}] if node is not None and node["state"] != "left" else []


@models(_sql.count_others)
def count_others(data: Data, account_id: str, node_id: str | None) -> list[Row]:
    others = [
        node
        for node in data.nodes.of("account", account_id)
        if node["id"] != node_id and node["state"] != "left"
    ]
    return [{"count": len(others)}]


@models(_sql.update)
def update(
    data: Data,
    node_id: str,
    account_id: str,
    node_key_id: str | None,
    name: str,
    own_tasks_only: bool,
    description: bytes,
    cores: int,
    memory_bytes: int,
    disk_bytes: int,
) -> list[Row]:
    node = data.nodes.get(node_id)
    if node is None or node["account_id"] != account_id:
        return []
    data.nodes.update(
        node,
        {
            "node_key_id": node_key_id,
            "name": name,
            "state": "online",
            "own_tasks_only": own_tasks_only,
            "description": description,
            "cores": cores,
            "memory_bytes": memory_bytes,
            "disk_bytes": disk_bytes,
            "heartbeat_at": data.now,
            "is_polling": node["is_polling"] and node["state"] == "online",
        },
    )
    return [{"state": node["state"]}]


@models(_sql.forget_devices)
def forget_devices(data: Data, node_id: str) -> list[Row]:
    for device in data.devices.of("node", node_id):
        data.devices.update(device, {"is_present": False})
    return []


@models(_sql.offer_device)
def offer_device(
    data: Data,
    device_id: str,
    node_id: str,
    uuid: str,
    position: int,
    kind: str,
    description: bytes,
    model: str,
    memory_bytes: int,
    price_micro_per_hour: int,
) -> list[Row]:
    offered = {
        "position": position,
        "kind": kind,
        "description": description,
        "model": model,
        "memory_bytes": memory_bytes,
        "price_micro_per_hour": price_micro_per_hour,
    }
    before = data.devices.find("devices_node_id_uuid_key", node_id, uuid)
    if before is None:
        named = {"id": device_id, "node_id": node_id, "uuid": uuid}
        return [{"id": data.devices.insert({**named, **offered})["id"]}]
    return [{"id": data.devices.update(before, {**offered, "is_present": True})["id"]}]


@models(_sql.hear)
def hear(
    data: Data, node_id: str, account_id: str, node_key_id: str | None, moment: timedelta
) -> list[Row]:
    node = staying(data, node_id, account_id, node_key_id)
    if node is None:
        return []
    if node["heartbeat_at"] <= data.now - moment:
        data.nodes.update(node, {"heartbeat_at": data.now})
    return [{"state": node["state"]}]


@models(_sql.come_back)
def come_back(data: Data, node_id: str, account_id: str, node_key_id: str | None) -> list[Row]:
    node = staying(data, node_id, account_id, node_key_id)
    if node is None:
        return []
    data.nodes.update(node, {"state": "online", "heartbeat_at": data.now})
    return [{"state_before": node["state"]}]


@models(_sql.leave)
def leave(data: Data, node_id: str, account_id: str, node_key_id: str | None) -> list[Row]:
    node = _own(data, node_id, account_id, node_key_id)
    if node is None:
        return []
    data.nodes.update(node, {"state": "left"})
    return [{"is_news": node["state"] != "left"}]


@models(_sql.fall_silent)
def fall_silent(data: Data, quiet: timedelta) -> list[Row]:
    silent = [
        node
        for node in sorted(data.nodes.all(), key=_id)
        if node["state"] == "online"
        and node["heartbeat_at"] <= data.now - quiet
        and not _is_forgiven(data, node)
    ]
    for node in silent:
        data.nodes.update(node, {"state": "silent"})
    return [{"id": node["id"], "account_id": node["account_id"]} for node in silent]


@models(_sql.lock_own)
def lock_own(data: Data, node_id: str, account_id: str, also_left: bool) -> list[Row]:
    node = data.nodes.get(node_id)
    if node is None or node["account_id"] != account_id:
        return []
    if node["state"] == "left" and not also_left:
        return []
    return [{"id": node_id, "name": node["name"]}]


def _is_forgiven(data: Data, node: Row) -> bool:
    leader = data.the_leader()
    until, beat_at = leader["forgiven_until"], leader["forgiven_beat_at"]
    return until is not None and until > data.now and bool(node["heartbeat_at"] <= beat_at)


def staying(data: Data, node_id: str, account_id: str, node_key_id: str | None) -> Row | None:
    """The caller's own, if it has not left."""
    node = _own(data, node_id, account_id, node_key_id)
    return None if node is None or node["state"] == "left" else node


def _own(data: Data, node_id: str, account_id: str, node_key_id: str | None) -> Row | None:
    node = data.nodes.get(node_id)
    is_own = node is not None and (node["account_id"], node["node_key_id"]) == (
        account_id,
        node_key_id,
    )
    return node if is_own else None


def _id(row: Row) -> str:
    return str(row["id"])
