"""Models of queries/tasks.sql and dependencies.sql."""

from collections import Counter
from datetime import timedelta
from typing import Any

import asyncpg

from potluck.simulate.store import spans
from potluck.simulate.store.data import Data
from potluck.simulate.store.prices import cheapest
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load
from potluck.wire import codec

_sql = load("tasks")
_dependencies = load("dependencies")


@models(_sql.insert)
def insert(
    data: Data,
    task_id: str,
    account_id: str,
    name: str,
    kind: str,
    sealed_spec: bytes,
    requirements: bytes,
    limits: bytes,
    priority: int,
    max_attempts: int,
    start_within: timedelta | None,
    delay: timedelta | None,
    expected_seconds: float | None,
    after_ids: list[str],
    waits_for: int,
    items: int | None,
    allow_failures: int,
    pending: "list[asyncpg.Range[int]]",
    idempotency_key: str | None,
    request_hash: bytes,
    sealed_secrets: bytes | None,
    secret_count: int,
    retry_of: str | None,
    items_succeeded: int,
    items_seconds: float,
) -> list[Row]:
    if data.tasks.find("tasks_account_id_key", account_id, idempotency_key) is not None:
        return []
    data.tasks.insert(
        {
            "id": task_id,
            "account_id": account_id,
            "name": name,
            "kind": kind,
            "sealed_spec": sealed_spec,
            "requirements": requirements,
            "limits": limits,
            "priority": priority,
            "max_attempts": max_attempts,
            "start_before": data.ahead(start_within),
            "not_before": data.ahead(delay),
            "expected_seconds": expected_seconds,
            "after_ids": after_ids,
            "waits_for": waits_for,
            "items": items,
            "allow_failures": allow_failures,
            "pending": spans.of(pending),
            "idempotency_key": idempotency_key,
            "request_hash": request_hash,
            "sealed_secrets": sealed_secrets,
            "secret_count": secret_count,
            "retry_of": retry_of,
            "items_succeeded": items_succeeded,
            "items_seconds": items_seconds,
        }
    )
    told = {"account_id": account_id, "task_id": task_id, "kind": "task.queued"}
    data.events.insert({**told, "node_id": None, "data": codec.encode_json({"state": "queued"})})
    return [{"id": task_id}]


@models(_sql.allowance)
def allowance(
    data: Data,
    account_id: str,
    queued: int | None,
    priority: int | None,
    keys: list[str],
    cores: list[int],
    numbers: list[int],
) -> list[Row]:
    account, balance = data.accounts.get(account_id), data.balances.get(account_id)
    if account is None or balance is None:
        return []
    own_queued, own_priority = account["max_queued_tasks"], account["max_priority"]
    return [
        {
            "address": account["address"],
            "available_micro": balance["available_micro"],
            "queued": queued if own_queued is None else own_queued,
            "priority": priority if own_priority is None else own_priority,
            **_earlier(data, account_id, keys),
            "cheapest": [cheapest(data, *size) for size in zip(cores, numbers, strict=True)],
        }
    ]


def _earlier(data: Data, account_id: str, keys: list[str]) -> Row:
    found = [data.tasks.find("tasks_account_id_key", account_id, key) for key in set(keys)]
    earlier = [task for task in found if task is not None]
    columns = {"ids": "id", "hashes": "request_hash", "keys": "idempotency_key"}
    return {name: [task[of] for task in earlier] for name, of in columns.items()}


@models(_sql.lock_queue)
def lock_queue(data: Data, account_id: str) -> list[Row]:
    return [] if data.accounts.get(account_id) is None else [{}]


@models(_sql.count_queued)
def count_queued(data: Data, account_id: str, most: int) -> list[Row]:
    queued = [row for row in data.tasks.of("account", account_id) if row["state"] == "queued"]
    return [{"count": min(len(queued), most)}]


@models(_sql.by_idempotency_key)
def by_idempotency_key(data: Data, account_id: str, key: str) -> list[Row]:
    found = data.tasks.find("tasks_account_id_key", account_id, key)
    return [] if found is None else [{of: found[of] for of in ("id", "request_hash")}]


@models(_sql.views)
def views(data: Data, task_ids: list[str], account_id: str) -> list[Row]:
    found = [data.tasks.get(task_id) for task_id in sorted(set(task_ids), reverse=True)]
    return [
        {
            **task,
            "is_put_off": task["not_before"] and task["not_before"] > data.now,
            "items_pending": spans.size(task["pending"]),
        }
        for task in found
        if task is not None and task["account_id"] == account_id
    ]


@models(_sql.failed_on)
def failed_on(data: Data, task_ids: list[str]) -> list[Row]:
    found = {
        task_id: {
            row["node_id"]
            for row in data.attempts.of("task", task_id)
            if row["state"] in ("failed", "lost")
        }
        for task_id in sorted(set(task_ids))
    }
    return [{"task_id": each, "node_ids": sorted(nodes)} for each, nodes in found.items() if nodes]


@models(_sql.attempts)
def attempts(data: Data, task_ids: list[str], most: int) -> list[Row]:
    return [
        {**attempt, **_place(data, attempt), "items": spans.shown_one(attempt["items"])}
        for task_id in sorted(task_ids)
        for attempt in _newest(data.attempts.of("task", task_id), most)
    ]


def _newest(found: list[Row], most: int) -> list[Row]:
    return sorted(found, key=lambda row: row["number"])[-most:]


def _place(data: Data, attempt: Row) -> Row:
    node = data.nodes.get(attempt["node_id"])
    shares = [
        (device["position"], share, device)
        for share in data.attempt_devices.of("attempt", attempt["id"])
        if (device := data.devices.get(share["device_id"])) is not None
    ]
    told: list[dict[str, Any]] = [
        {
            "device_id": share["device_id"],
            "model": device["model"],
            "milli": share["milli"],
            "memory_bytes": share["memory_bytes"],
        }
        for _, share, device in sorted(shares, key=lambda each: each[0])
    ]
    return {"node_name": node and node["name"], "devices": codec.encode_json(told)}


@models(_sql.lock)
def lock(data: Data, task_id: str, account_id: str) -> list[Row]:
    task = data.tasks.get(task_id)
    if task is None or task["account_id"] != account_id:
        return []
    return [{"state": task["state"]}]


@models(_sql.lock_queued)
def lock_queued(data: Data, task_ids: list[str]) -> list[Row]:
    found = (data.tasks.get(task_id) for task_id in sorted(set(task_ids)))
    return [{"id": task["id"]} for task in found if task and task["state"] == "queued"]


@models(_sql.end_queued)
def end_queued(
    data: Data, task_ids: list[str], details: list[str], state: str, reason: str
) -> list[Row]:
    ended = []
    for task_id, detail in zip(task_ids, details, strict=True):
        task = data.tasks.get(task_id)
        if task is None or task["state"] != "queued":
            continue
        changes = {"state": state, "reason": reason, "detail": detail, "not_before": None}
        end = {"finished_at": data.now, "sealed_secrets": None}
        data.tasks.update(task, {**changes, **end, **counted(data, task)})
        decide(data, task_id, state)
        ended.append({"id": task_id, "account_id": task["account_id"]})
    return sorted(ended, key=lambda row: row["id"])


def counted(data: Data, task: Row) -> Row:
    return {"updated_at": data.now, "version": task["version"] + 1}


def decide(data: Data, task_id: str, outcome: str) -> None:
    if data.dependencies.of("after", task_id):
        data.ended_tasks.insert({"after_id": task_id, "outcome": outcome})


@models(_sql.past_deadline)
def past_deadline(data: Data) -> list[Row]:
    late = [
        task
        for task in data.tasks.of("queued", "queued")
        if task["started_at"] is None
        and task["start_before"] is not None
        and task["start_before"] <= data.now
    ]
    late.sort(key=lambda task: (task["start_before"], task["id"]))
    return [{"id": task["id"]} for task in late[:1000]]


@models(_dependencies.hold_after)
def hold_after(data: Data, task_ids: list[str], account_id: str) -> list[Row]:
    found = (data.tasks.get(task_id) for task_id in sorted(set(task_ids)))
    return [
        {"id": task["id"], "state": task["state"]}
        for task in found
        if task is not None and task["account_id"] == account_id
    ]


@models(_dependencies.insert)
def insert_dependencies(data: Data, task_id: str, after_ids: list[str]) -> list[Row]:
    for after_id in after_ids:
        data.dependencies.insert({"task_id": task_id, "after_id": after_id})
    return []


@models(_dependencies.decided)
def decided(data: Data, most: int) -> list[Row]:
    found = [
        {**row, "outcome": ended["outcome"]}
        for ended in data.ended_tasks.all()
        for row in data.dependencies.of("after", ended["after_id"])
    ]
    return sorted(found, key=lambda row: (row["after_id"], row["task_id"]))[:most]


@models(_dependencies.fallen)
def fallen(data: Data, task_ids: list[str], most: int) -> list[Row]:
    found: list[Row] = []
    frontier = set(task_ids)
    while frontier:
        later = [
            {"task_id": row["task_id"], "after_id": row["after_id"]}
            for after_id in sorted(frontier)
            if data.ended_tasks.get(after_id) is None
            for row in data.dependencies.of("after", after_id)
        ]
        later = [row for row in later if row not in found]
        found += later
        frontier = {row["task_id"] for row in later}
    return found[:most]


@models(_dependencies.lock_tasks)
def lock_tasks(data: Data, task_ids: list[str]) -> list[Row]:
    return [{} for task_id in set(task_ids) if data.tasks.get(task_id) is not None]


@models(_dependencies.release)
def release(data: Data, task_ids: list[str], after_ids: list[str]) -> list[Row]:
    released: Counter[str] = Counter()
    for key in set(zip(task_ids, after_ids, strict=True)):
        row = data.dependencies.get(key)
        if row is not None:
            data.dependencies.delete(row)
            released[row["task_id"]] += 1
    for task_id, number in released.items():
        task = data.tasks.get(task_id)
        assert task is not None, "a dependency has a task"
        changes = {"waits_for": task["waits_for"] - number}
        data.tasks.update(task, {**changes, **counted(data, task)})
    return []


@models(_dependencies.forget)
def forget(data: Data, after_ids: list[str]) -> list[Row]:
    for after_id in set(after_ids):
        row = data.ended_tasks.get(after_id)
        if row is not None and not data.dependencies.of("after", after_id):
            data.ended_tasks.delete(row)
    return []
