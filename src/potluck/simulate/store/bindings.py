"""Models of queries/bindings.sql: whose device it is, and who contests it."""

from datetime import datetime, timedelta

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("bindings")


@models(_sql.claim)
def claim(data: Data, uuid: str, account_id: str) -> list[Row]:
    before = data.bindings.get(uuid)
    if before is None:
        data.bindings.insert({"uuid": uuid, "account_id": account_id})
        return [{"account_id": account_id, "is_new": True}]
    return [{"account_id": before["account_id"], "is_new": False}]


@models(_sql.lock)
def lock(data: Data, uuid: str) -> list[Row]:
    binding = data.bindings.get(uuid)
    return [] if binding is None else [{"account_id": binding["account_id"]}]


@models(_sql.has_lapsed)
def has_lapsed(data: Data, uuid: str, account_id: str, lapse: timedelta) -> list[Row]:
    heard = any(
        node["account_id"] == account_id and node["heartbeat_at"] > data.now - lapse
        for _, node in _showing(data, uuid)
    )
    return [{"has_lapsed": not heard}]


@models(_sql.move)
def move(data: Data, uuid: str, account_id: str) -> list[Row]:
    binding = data.bindings.get(uuid)
    if binding is not None:
        changes = {"account_id": account_id, "node_id": None, "bound_at": data.now}
        data.bindings.update(binding, changes)
    return []


@models(_sql.lock_of_node)
def lock_of_node(data: Data, node_id: str, account_id: str) -> list[Row]:
    found = []
    for uuid in {device["uuid"] for device in data.devices.of("node", node_id)}:
        binding = data.bindings.get(uuid)
        shown_elsewhere = any(
            device["is_present"]
            and node["account_id"] == account_id
            and node["id"] != node_id
            and node["state"] != "left"
            for device, node in _showing(data, uuid)
        )
        if binding is not None and binding["account_id"] == account_id and not shown_elsewhere:
            found.append({"uuid": uuid})
    return sorted(found, key=lambda row: row["uuid"])


@models(_sql.free)
def free(data: Data, uuids: list[str]) -> list[Row]:
    for uuid in uuids:
        binding = data.bindings.get(uuid)
        if binding is None:
            continue
        contest = data.contests.get(uuid)
        if contest is not None:
            data.contests.delete(contest)
        for lost in [row for row in data.lost_contests.all() if row["uuid"] == uuid]:
            data.lost_contests.delete(lost)
        data.bindings.delete(binding)
    return []


@models(_sql.lock_nodes)
def lock_nodes(data: Data, uuids: list[str], node_id: str | None) -> list[Row]:
    shown = {
        device["node_id"]
        for uuid in uuids
        for device in data.devices.of("uuid", uuid)
        if device["is_present"]
    }
    named = {node_id} if node_id is not None and data.nodes.get(node_id) is not None else set()
    return [{"id": each} for each in sorted(shown | named)]


@models(_sql.rehold)
def rehold(data: Data, uuids: list[str]) -> list[Row]:
    for uuid in uuids:
        binding = data.bindings.get(uuid)
        if binding is None:
            continue
        candidates = [
            (
                not (node["state"] == "online" or device["free_milli"] < 1000),
                node["id"] != binding["node_id"],
                node["id"],
            )
            for device, node in _showing(data, uuid)
            if device["is_present"]
            and node["account_id"] == binding["account_id"]
            and node["state"] != "left"
        ]
        best = min(candidates)[2] if candidates else None
        data.bindings.update(binding, {"node_id": best})
    return []


@models(_sql.restand)
def restand(data: Data, uuids: list[str]) -> list[Row]:
    for uuid in uuids:
        binding, contest = data.bindings.get(uuid), data.contests.get(uuid)
        if binding is None:
            continue
        for device, node in _showing(data, uuid):
            if device["is_present"]:
                standing = _standing(device, node, binding, contest)
                data.devices.update(device, {"standing": standing})
    return []


def _standing(device: Row, node: Row, binding: Row, contest: Row | None) -> str:
    if node["account_id"] == binding["account_id"]:
        is_here = device["kind"] == "cpu" or node["id"] == binding["node_id"]
        return "bound" if is_here else "elsewhere"
    is_contender = contest is not None and node["account_id"] == contest["contender_id"]
    return "contested" if is_contender else "foreign"


@models(_sql.contest)
def contest(
    data: Data, uuid: str, contender_id: str, seed: bytes, lasting: timedelta, away: timedelta
) -> list[Row]:
    binding = data.bindings.get(uuid)
    if binding is None:
        return []
    is_shown = any(
        device["is_present"]
        and node["account_id"] == binding["account_id"]
        and node["state"] != "left"
        for device, node in _showing(data, uuid)
    )
    data.contests.insert(
        {
            "uuid": uuid,
            "contender_id": contender_id,
            "seed": seed,
            "contender_by": data.now + lasting,
            "incumbent_by": data.now + (away if is_shown else lasting),
        }
    )
    return []


@models(_sql.hurry_incumbent)
def hurry_incumbent(data: Data, uuid: str, lasting: timedelta) -> list[Row]:
    row = data.contests.get(uuid)
    if row is not None:
        by = min(row["incumbent_by"], data.now + lasting)
        data.contests.update(row, {"incumbent_by": by})
    return []


@models(_sql.prolong_contests)
def prolong_contests(data: Data, lasting: timedelta) -> list[Row]:
    for row in data.contests.all():
        data.contests.update(
            row,
            {side: max(row[side], data.now + lasting) for side in ("incumbent_by", "contender_by")},
        )
    return []


@models(_sql.contest_of)
def contest_of(data: Data, uuid: str) -> list[Row]:
    row = data.contests.get(uuid)
    return (
        [] if row is None else [{**row, **_incumbent(data, uuid), "now": _time_that_counts(data)}]
    )


@models(_sql.answer_as_incumbent)
def answer_as_incumbent(data: Data, uuid: str, is_right: bool) -> list[Row]:
    return _answered(data, uuid, "incumbent_was_right", is_right)


@models(_sql.answer_as_contender)
def answer_as_contender(data: Data, uuid: str, is_right: bool) -> list[Row]:
    return _answered(data, uuid, "contender_was_right", is_right)


def _answered(data: Data, uuid: str, side: str, is_right: bool) -> list[Row]:
    row = data.contests.get(uuid)
    if row is not None:
        data.contests.update(row, {side: is_right})
    return []


@models(_sql.close_contest)
def close_contest(data: Data, uuid: str) -> list[Row]:
    row = data.contests.get(uuid)
    if row is not None:
        data.contests.delete(row)
    return []


@models(_sql.lose_contest)
def lose_contest(data: Data, uuid: str, contender_id: str) -> list[Row]:
    before = data.lost_contests.get((uuid, contender_id))
    if before is None:
        named = {"uuid": uuid, "contender_id": contender_id}
        data.lost_contests.insert({**named, "lost_at": data.now})
    else:
        data.lost_contests.update(before, {"lost_at": data.now})
    return []


@models(_sql.forget_lost_contests)
def forget_lost_contests(data: Data, uuid: str, within: timedelta) -> list[Row]:
    for row in data.lost_contests.all():
        if row["uuid"] == uuid and row["lost_at"] <= data.now - within:
            data.lost_contests.delete(row)
    return []


@models(_sql.has_lost)
def has_lost(data: Data, uuid: str, account_id: str) -> list[Row]:
    return [{"exists": data.lost_contests.get((uuid, account_id)) is not None}]


@models(_sql.of_node)
def of_node(data: Data, node_id: str, lapse: timedelta) -> list[Row]:
    told = []
    for device in data.devices.of("node", node_id):
        row = data.contests.get(device["uuid"])
        if device["is_present"] and (device["standing"] != "bound" or row is not None):
            told.append(_concern(data, device, row, lapse))
    return sorted(told, key=lambda each: each["uuid"])


_CONTESTED = (
    *("contender_id", "seed", "incumbent_by", "contender_by"),
    *("incumbent_was_right", "contender_was_right"),
)


def _concern(data: Data, device: Row, row: Row | None, lapse: timedelta) -> Row:
    return {
        "uuid": device["uuid"],
        "standing": device["standing"],
        **{column: row and row[column] for column in _CONTESTED},
        **_incumbent(data, device["uuid"]),
        "now": _time_that_counts(data),
        "is_free": _is_free(data, device, lapse),
    }


def _is_free(data: Data, device: Row, lapse: timedelta) -> bool:
    binding = data.bindings.get(device["uuid"])
    if binding is None:
        return True
    showing = _showing(data, device["uuid"])
    if device["standing"] == "elsewhere":
        return not any(
            held["node_id"] == binding["node_id"]
            and held["is_present"]
            and (
                holder["state"] == "online"
                or (holder["state"] == "silent" and held["free_milli"] < 1000)
            )
            for held, holder in showing
        )
    if device["standing"] == "foreign":
        return not any(
            holder["account_id"] == binding["account_id"]
            and holder["heartbeat_at"] > data.now - lapse
            for _, holder in showing
        )
    return False


def _showing(data: Data, uuid: str) -> list[tuple[Row, Row]]:
    """Devices of this uuid, whoever ever showed one, with their nodes."""
    found = []
    for device in data.devices.of("uuid", uuid):
        node = data.nodes.get(device["node_id"])
        assert node is not None, "a device has a node"
        found.append((device, node))
    return found


def _incumbent(data: Data, uuid: str) -> Row:
    binding = data.bindings.get(uuid)
    return {"incumbent_id": binding and binding["account_id"]}


def _time_that_counts(data: Data) -> datetime:
    by: datetime = data.the_leader()["expires_at"]
    return min(data.now, by)
