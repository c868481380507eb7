"""What an attempt takes of a node and its devices, and the guards of whoever takes it."""

import msgspec

from potluck.simulate.store.accounts import in_force
from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row


def has_room(node: Row, cores: int, memory_bytes: int, disk_bytes: int) -> bool:
    return bool(
        node["cores"] - node["used_cores"] >= cores
        and node["memory_bytes"] - node["used_memory_bytes"] >= memory_bytes
        and node["disk_bytes"] - node["used_disk_bytes"] >= disk_bytes
    )


def is_there(device: Row | None, milli: int) -> bool:
    """Whether so much of a device is unused on its node, which may offer it."""
    if device is None or not device["is_present"] or device["standing"] != "bound":
        return False
    return bool(device["free_milli"] >= milli)


def has_memory(device: Row, memory_bytes: int) -> bool:
    return bool(device["memory_bytes"] - device["used_memory_bytes"] >= memory_bytes)


def may_stand_there(
    data: Data, device: Row, consumer_id: str, *, is_sharer: bool, is_open: bool
) -> bool:
    """Whether an account's attempt may come to stand beside whoever is there."""
    others = [row for row in _on(data, device) if row["consumer_id"] != consumer_id]
    if not others or _is_walled(device):
        return True
    return is_sharer and is_open and all(agrees(data, row) for row in others)


def _is_walled(device: Row) -> bool:
    """Whether nobody on it is in anybody's way: the SQL function may_serve_several of nobody who
    agrees."""
    return device["kind"] == "cpu" or bool(described(device).get("is_partition"))


def is_open(device: Row) -> bool:
    """The SQL function may_serve_several of those who all agree."""
    return _is_walled(device) or bool(terms(device).get("shares_accounts"))


def is_well_used(data: Data, device: Row, attempts: list[Row]) -> bool:
    """Whether these may all be there, if they are of several accounts."""
    if _is_walled(device):
        return True
    strict = {row["consumer_id"] for row in attempts if not row["may_stand_beside"]}
    return bool(attempts) and all(agrees(data, row) for row in attempts) and len(strict) <= 1


def described(device: Row) -> Row:
    said: Row = msgspec.json.decode(device["description"])
    return said


def terms(device: Row) -> Row:
    said: Row = described(device).get("terms", {})
    return said


def _on(data: Data, device: Row) -> list[Row]:
    """Live attempts of the device's node that have a part of it."""
    shares = data.attempt_devices.of("device", device["id"])
    attempts = [data.attempts.get(share["attempt_id"]) for share in shares]
    return [row for row in attempts if row is not None and row["finished_at"] is None]


def agrees(data: Data, attempt: Row) -> bool:
    task = data.tasks.get(attempt["task_id"])
    assert task is not None, "an attempt has a task"
    return shares_device(task)


def shares_device(task: Row) -> bool:
    return bool(msgspec.json.decode(task["requirements"]).get("shares_device"))


def can_hold(data: Data, account_id: str, hold_micro: int) -> bool:
    balance = data.balances.get(account_id)
    return balance is not None and bool(balance["available_micro"] >= hold_micro)


def key_is_good(data: Data, node_key_id: str | None) -> bool:
    key = data.node_keys.get(node_key_id)
    return key is None or in_force(data, key)


def reserve(data: Data, node_id: str, attempt: Row, sign: int = 1, **changes: int) -> None:
    """Takes of the node what the attempt needs; with -1 it gives that back."""
    node = data.nodes.get(node_id)
    assert node is not None, "an attempt has a node"
    used = {
        f"used_{of}": node[f"used_{of}"] + sign * attempt[of]
        for of in ("cores", "memory_bytes", "disk_bytes")
    }
    data.nodes.update(node, {**used, **{of: node[of] + by for of, by in changes.items()}})


def take_device(data: Data, share: Row, sign: int = 1) -> None:
    device = data.devices.get(share["device_id"])
    assert device is not None, "a share is of a device"
    data.devices.update(
        device,
        {
            "free_milli": device["free_milli"] - sign * share["milli"],
            "used_memory_bytes": device["used_memory_bytes"] + sign * share["memory_bytes"],
        },
    )
