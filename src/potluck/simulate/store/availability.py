"""Models of queries/availability.sql."""

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("availability")


@models(_sql.lock_node)
def lock_node(data: Data, node_id: str) -> list[Row]:
    return [] if data.nodes.get(node_id) is None else [{"id": node_id}]


@models(_sql.tell)
def tell(
    data: Data,
    node_id: str,
    wish: int,
    uuids: list[str],
    availabilities: list[str],
    whys: list[str],
) -> list[Row]:
    node = data.nodes.get(node_id)
    if node is None:
        return []
    told = []
    for uuid, availability, why in zip(uuids, availabilities, whys, strict=True):
        device = data.devices.find("devices_node_id_uuid_key", node_id, uuid)
        if device is None or not device["is_present"]:
            continue
        if availability == "available" and node["last_wish"] > wish:
            continue
        if (device["availability"], device["why"]) != (availability, why):
            said = {"availability": availability, "why": why}
            data.devices.update(device, said)
            named = {"id": device["id"], "uuid": uuid, "before": device["availability"]}
            told.append({**named, **said})
    return told


@models(_sql.withdraw)
def withdraw(data: Data, node_id: str, uuids: list[str], availability: str, why: str) -> list[Row]:
    for device in data.devices.of("node", node_id):
        if device["is_present"] and device["uuid"] in uuids and device["availability"] != "sick":
            data.devices.update(device, {"availability": availability, "why": why})
    return []
