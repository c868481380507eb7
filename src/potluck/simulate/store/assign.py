"""Models of queries/assign.sql."""

from datetime import timedelta

import asyncpg
import msgspec

from potluck.simulate.store import spans
from potluck.simulate.store.capacity import (
    can_hold,
    has_memory,
    has_room,
    is_open,
    is_there,
    may_stand_there,
    reserve,
    take_device,
    terms,
)
from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("assign")


@models(_sql.lock)
def lock(data: Data, holder: str, term: int, *_ids: list[str]) -> list[Row]:
    """Nobody else comes between, so there is nothing to lock."""
    return [{"holds": data.is_led_by(holder, term)}]


@models(_sql.assign)
def assign(
    data: Data,
    attempt_id: str,
    term: int,
    holder: str,
    task_id: str,
    node_id: str,
    device_ids: list[str],
    millis: list[int],
    memories: list[int],
    cores: int,
    memory_bytes: int,
    disk_bytes: int,
    price_micro_per_hour: int,
    hold_micro: int,
    run_seconds: float,
    prepare_seconds: float,
    log_bytes: int,
    fetch_within: timedelta,
    items: "asyncpg.Range[int] | None",
    is_sharer: bool,
) -> list[Row]:
    span = None if items is None else (items.lower, items.upper)
    task, node = data.tasks.get(task_id), data.nodes.get(node_id)
    if not data.is_led_by(holder, term) or task is None or not _is_open(data, task, span):
        return []
    if node is None or not _takes(data, node, task):
        return []
    wanted = {"cores": cores, "memory_bytes": memory_bytes, "disk_bytes": disk_bytes}
    shares = _shares(attempt_id, device_ids, millis, memories)
    if not has_room(node, **wanted) or not _all_free(data, node_id, task, shares, is_sharer):
        return []
    is_paid = hold_micro == 0 or can_hold(data, task["account_id"], hold_micro)
    if _price(data, shares) != price_micro_per_hour or not is_paid:
        return []
    _take_task(data, task, span)
    reserve(data, node_id, wanted)
    owners = {"consumer_id": task["account_id"], "provider_id": node["account_id"]}
    data.attempts.insert(
        {
            "id": attempt_id,
            "task_id": task_id,
            "node_id": node_id,
            **wanted,
            **owners,
            "number": _next_number(data, task_id),
            "price_micro_per_hour": price_micro_per_hour,
            "hold_micro": hold_micro,
            "run_seconds_limit": run_seconds,
            "prepare_seconds_limit": prepare_seconds,
            "log_bytes_limit": log_bytes,
            "lease_expires_at": data.now + fetch_within,
            "items": span,
            "remaining": () if span is None else (span,),
            **_let_in(data, device_ids),
        }
    )
    _take_devices(data, shares)
    _tell(data, task, attempt_id, node_id)
    return [{"id": attempt_id, **owners}]


def _take_devices(data: Data, shares: list[Row]) -> None:
    for share in shares:
        take_device(data, data.attempt_devices.insert(share))


def _tell(data: Data, task: Row, attempt_id: str, node_id: str) -> None:
    """`task` is as it was before."""
    told = [("attempt.granted", "granted", node_id), ("task.assigned", "assigned", None)]
    for kind, state, where in told if task["state"] == "queued" else told[:1]:
        said = {"state": state, "attempt_id": attempt_id, "node_id": node_id}
        data.events.insert(
            {
                "account_id": task["account_id"],
                "task_id": task["id"],
                "node_id": where,
                "kind": kind,
                "data": msgspec.json.encode(said),
            }
        )


def _takes(data: Data, node: Row, task: Row) -> bool:
    is_welcome = not node["own_tasks_only"] or node["account_id"] == task["account_id"]
    owner = data.accounts.get(node["account_id"])
    assert owner is not None, "a node has an owner"
    owners = msgspec.json.decode(task["requirements"]).get("owners", [])
    is_welcome &= not owners or owner["address"].lower() in owners
    return node["state"] == "online" and node["is_polling"] and is_welcome


def _next_number(data: Data, task_id: str) -> int:
    return max((row["number"] for row in data.attempts.of("task", task_id)), default=0) + 1


def _is_open(data: Data, task: Row, span: tuple[int, int] | None) -> bool:
    """Whether it may be begun now: as a single task, or these items of an array."""
    if span is None:
        waits = task["items"] is None and task["state"] == "queued"
    else:
        waits = task["state"] in ("queued", "assigned", "running") and spans.contains(
            task["pending"], (span,)
        )
    is_due = task["not_before"] is None or task["not_before"] <= data.now
    in_time = task["start_before"] is None or task["start_before"] > data.now
    return (
        waits and task["waits_for"] == 0 and is_due and (in_time or task["started_at"] is not None)
    )


def _shares(
    attempt_id: str, device_ids: list[str], millis: list[int], memories: list[int]
) -> list[Row]:
    columns = ("attempt_id", "device_id", "milli", "memory_bytes")
    wanted = zip(device_ids, millis, memories, strict=True)
    return [dict(zip(columns, (attempt_id, *share), strict=True)) for share in wanted]


def _all_free(data: Data, node_id: str, task: Row, shares: list[Row], is_sharer: bool) -> bool:
    devices = [(data.devices.get(share["device_id"]), share) for share in shares]
    return all(
        device is not None
        and device["node_id"] == node_id
        and is_there(device, share["milli"])
        and has_memory(device, share["memory_bytes"])
        and _is_given(data, device, task, share["milli"])
        and may_stand_there(
            data, device, task["account_id"], is_sharer=is_sharer, is_open=is_open(device)
        )
        for device, share in devices
    )


def _is_given(data: Data, device: Row, task: Row, milli: int) -> bool:
    """Whether its owner takes such tasks on it, now."""
    said = terms(device)
    return bool(
        device["availability"] == "available"
        and (not said.get("kinds") or task["kind"] in said["kinds"])
        and _takes_account(data, device, task["account_id"])
        and (device["kind"] != "gpu" or milli >= 1000 // (said.get("fractions") or 1000))
    )


def _takes_account(data: Data, device: Row, account_id: str) -> bool:
    """Lists are about others: his own tasks an owner always takes."""
    node, consumer = data.nodes.get(device["node_id"]), data.accounts.get(account_id)
    assert node is not None and consumer is not None, "a task has an owner, as a device"
    wallet, said = consumer["address"].lower(), terms(device)
    allowed, denied = ([each.lower() for each in said.get(of, [])] for of in ("allow", "deny"))
    is_taken = (not allowed or wallet in allowed) and wallet not in denied
    return is_taken or node["account_id"] == account_id


def _let_in(data: Data, device_ids: list[str]) -> Row:
    """What their owner said when it was assigned."""
    devices = [row for row in map(data.devices.get, device_ids) if row is not None]
    return {
        "is_reclaimable": all(terms(row).get("is_reclaimable", False) for row in devices),
        "may_stand_beside": all(map(is_open, devices)),
    }


def _price(data: Data, shares: list[Row]) -> int | None:
    """None of no devices, which is no price that was planned with."""
    devices = [(data.devices.get(share["device_id"]), share["milli"]) for share in shares]
    parts = [row["price_micro_per_hour"] * milli for row, milli in devices if row is not None]
    return sum(parts) // 1000 if parts else None


def _take_task(data: Data, task: Row, span: tuple[int, int] | None) -> None:
    data.tasks.update(
        task,
        {
            "state": "assigned" if task["state"] == "queued" else task["state"],
            "pending": task["pending"] if span is None else spans.without(task["pending"], (span,)),
            "not_before": None,
            "reason": None,
            "detail": "",
            "updated_at": data.now,
            "version": task["version"] + 1,
        },
    )
