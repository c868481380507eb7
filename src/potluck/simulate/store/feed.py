"""Models of queries/feed.sql: what the leader keeps in memory."""

from collections.abc import Iterable

import msgspec

from potluck.simulate.store import spans
from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row, Table
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("feed")


@models(_sql.position)
def position(data: Data) -> list[Row]:
    return [{"position": data.log.snapshot(), "now": data.now.timestamp()}]


@models(_sql.news)
def news(data: Data, seen: str, limit: int) -> list[Row]:
    (at,) = position(data)
    ended = {row["after_id"] for row in data.ended_tasks.all()}
    told: Row = {
        **at,
        "node_ids": [row["id"] for row in changed_nodes(data, seen)],
        "account_ids": [row["account_id"] for row in changed_accounts(data, seen)],
        "has_decided": any(row["after_id"] in ended for row in data.dependencies.all()),
    }
    found = _changed_tasks(data, seen)[:limit]
    return [{**told, **_marked(data, row)} for row in found] or [{**told, "id": None}]


@models(_sql.changed_tasks)
def changed_tasks(data: Data, seen: str, behind_mark: str, behind_id: str, limit: int) -> list[Row]:
    last = (int(behind_mark), behind_id)
    found = [row for row in _changed_tasks(data, seen) if (row["changed"], row["id"]) > last]
    return [_marked(data, row) for row in found[:limit]]


def _changed_tasks(data: Data, seen: str) -> list[Row]:
    return sorted(_unseen(data.tasks, seen), key=lambda row: (row["changed"], row["id"]))


def _marked(data: Data, task: Row) -> Row:
    return {**_scheduled(data, task), "changed_by": str(task["changed"])}


@models(_sql.tasks)
def tasks(data: Data, task_ids: list[str]) -> list[Row]:
    found = (data.tasks.get(task_id) for task_id in sorted(set(task_ids)))
    return [_scheduled(data, row) for row in found if row is not None]


@models(_sql.waiting_tasks)
def waiting_tasks(data: Data, behind: str, limit: int) -> list[Row]:
    return [_scheduled(data, row) for row in _waiting(data, behind)[:limit]]


def _waiting(data: Data, behind: str) -> list[Row]:
    found = [row for row in data.tasks.of("waiting", True) if row["id"] > behind]
    return sorted(found, key=lambda row: row["id"])


@models(_sql.waiting_accounts)
def waiting_accounts(data: Data) -> list[Row]:
    accounts = {row["account_id"] for row in data.tasks.of("waiting", True)}
    return [{"account_id": account_id} for account_id in sorted(accounts)]


@models(_sql.queue_heads)
def queue_heads(data: Data, account_ids: list[str], most: int) -> list[Row]:
    waiting = data.tasks.of("waiting", True)
    heads = []
    for account_id in account_ids:
        own = [row for row in waiting if row["account_id"] == account_id]
        own.sort(key=lambda row: (-row["priority"], row["id"]))
        heads += [_scheduled(data, row) for row in own[:most]]
    return heads


@models(_sql.waiting_ids)
def waiting_ids(data: Data, behind: str, limit: int, seen: str, now: float) -> list[Row]:
    found = [
        {
            "id": row["id"],
            "is_ready": not shown["has_to_wait"] and (shown["ready_at"] or now) <= now,
            "pending": shown["pending"],
        }
        for row in _waiting(data, behind)
        if _is_seen(row["changed"], seen) and not (shown := _scheduled(data, row))["is_overdue"]
    ]
    return found[:limit]


@models(_sql.not_waiting)
def not_waiting(data: Data, task_ids: list[str], seen: str) -> list[Row]:
    found = (data.tasks.get(task_id) for task_id in sorted(set(task_ids)))
    return [
        {"id": row["id"]}
        for row in found
        if row is not None
        and (not row["is_waiting"] or row["waits_for"] > 0 or _fails_as_a_whole(row))
        and _is_seen(row["changed"], seen)
    ]


@models(_sql.changed_nodes)
def changed_nodes(data: Data, seen: str) -> list[Row]:
    nodes = {row["id"] for row in _unseen(data.nodes, seen)}
    shown = {row["node_id"] for row in _unseen(data.devices, seen)}
    return [{"id": node_id} for node_id in sorted(nodes | shown)]


@models(_sql.online_nodes)
def online_nodes(data: Data, behind: str, limit: int) -> list[Row]:
    online = [row["id"] for row in data.nodes.all() if row["state"] == "online"]
    return [{"id": node_id} for node_id in sorted(online) if node_id > behind][:limit]


@models(_sql.nodes)
def nodes(data: Data, node_ids: list[str]) -> list[Row]:
    return [_node(data, node_id) for node_id in node_ids]


def _node(data: Data, node_id: str) -> Row:
    row = data.nodes.get(node_id)
    devices = [
        device
        for device in data.devices.of("node", node_id)
        if device["is_present"] and device["standing"] == "bound"
    ]
    devices.sort(key=lambda device: device["position"])
    attempts = data.attempts.of("live_of_node", node_id)
    return {
        "id": node_id,
        **(_offered(data, row) if row is not None and _gets_work(row) else {"account_id": None}),
        "devices": msgspec.json.encode([_device(device) for device in devices]),
        "attempts": msgspec.json.encode([_running(data, attempt) for attempt in attempts]),
    }


def _gets_work(node: Row) -> bool:
    return bool(node["state"] == "online" and node["is_polling"])


def _offered(data: Data, row: Row) -> Row:
    said = msgspec.json.decode(row["description"])
    owner = data.accounts.get(row["account_id"])
    return {
        **row,
        **{
            f"free_{of}": max(0, row[of] - row[f"used_{of}"])
            for of in ("cores", "memory_bytes", "disk_bytes")
        },
        "labels": msgspec.json.encode(said.get("labels", [])),
        "sandbox": msgspec.json.encode(said["sandbox"]),
        "containers": said.get("containers") and msgspec.json.encode(said["containers"]),
        "python_version": said.get("python_version", ""),
        "wallet": owner and owner["address"],
    }


_DEVICE = (
    *("id", "kind", "model", "memory_bytes", "price_micro_per_hour", "free_milli"),
    "availability",
)
_ATTEMPT = (
    *("id", "task_id", "consumer_id", "cores", "memory_bytes", "disk_bytes"),
    *("run_seconds_limit", "items_done", "items_seconds"),
)


def _device(row: Row) -> Row:
    said = msgspec.json.decode(row["description"])
    return {
        **{of: row[of] for of in _DEVICE},
        "free_memory_bytes": max(0, row["memory_bytes"] - row["used_memory_bytes"]),
        "vendor": said.get("vendor", ""),
        "compute_capability": said.get("compute_capability"),
        "is_partition": said.get("is_partition", False),
        "terms": said.get("terms", {}),
    }


def _running(data: Data, attempt: Row) -> Row:
    task = data.tasks.get(attempt["task_id"])
    assert task is not None, "an attempt has a task"
    shares = data.attempt_devices.of("attempt", attempt["id"])
    shares.sort(key=lambda share: share["device_id"])
    span = attempt["items"]
    return {
        **{of: attempt[of] for of in _ATTEMPT},
        **{of: task[of] for of in ("name", "expected_seconds")},
        "requirements": msgspec.Raw(task["requirements"]),
        "items": 1 if span is None else span[1] - span[0],
        "is_array": span is not None,
        "since": (attempt["started_at"] or attempt["assigned_at"]).timestamp(),
        "shares": [
            [share[of] for of in ("device_id", "milli", "memory_bytes")] for share in shares
        ],
    }


@models(_sql.changed_accounts)
def changed_accounts(data: Data, seen: str) -> list[Row]:
    purses = {row["account_id"] for row in _unseen(data.balances, seen)}
    accounts = {row["id"] for row in _unseen(data.accounts, seen)}
    return [{"account_id": account_id} for account_id in sorted(purses | accounts)]


@models(_sql.all_accounts)
def all_accounts(data: Data, behind: str, limit: int) -> list[Row]:
    found = sorted(row["id"] for row in data.accounts.all())
    return [{"id": account_id} for account_id in found if account_id > behind][:limit]


@models(_sql.accounts)
def accounts(data: Data, account_ids: list[str]) -> list[Row]:
    found = (data.accounts.get(account_id) for account_id in sorted(set(account_ids)))
    return [
        {
            **{of: row[of] for of in ("id", "address", "weight", "max_running_devices")},
            "available_micro": (data.balances.get(row["id"]) or {}).get("available_micro", 0),
        }
        for row in found
        if row is not None
    ]


_TASK = (
    *("id", "account_id", "priority", "name", "requirements", "limits"),
    *("is_waiting", "changed", "expected_seconds", "kind"),
)


@models(_sql.paces)
def paces(data: Data, task_ids: list[str]) -> list[Row]:
    worked: dict[tuple[str, str], list[Row]] = {}
    for task_id in task_ids:
        newest = sorted(data.attempts.of("task", task_id), key=lambda row: -row["number"])[:64]
        for row in newest:
            if row["items_done"] > 0:
                worked.setdefault((task_id, row["node_id"]), []).append(row)
    return [
        {"task_id": task_id, "node_id": node_id, **_pace(rows)}
        for (task_id, node_id), rows in sorted(worked.items())
    ]


def _pace(attempts: list[Row]) -> Row:
    done, failed = (sum(row[of] for row in attempts) for of in ("items_done", "items_failed"))
    seconds = sum(row["items_seconds"] for row in attempts)
    return {"item_seconds": seconds / done, "in_vain": failed if failed == done else 0}


def _scheduled(data: Data, task: Row) -> Row:
    """A row of the view scheduled_tasks."""
    is_late = task["start_before"] is not None and task["start_before"] <= data.now
    return {
        **{column: task[column] for column in _TASK},
        "pending": spans.shown(task["pending"][:1000]),
        "items_done": task["items_succeeded"] + task["items_failed"],
        "items_seconds": task["items_seconds"],
        "submitted_at": task["created_at"].timestamp(),
        "ready_at": task["not_before"] and task["not_before"].timestamp(),
        "has_to_wait": task["waits_for"] > 0 or _fails_as_a_whole(task),
        "is_overdue": task["started_at"] is None and is_late,
        "failed_on": _failed_on(data, task),
        "took_seconds": _took_seconds(task),
        "is_array": task["items"] is not None,
    }


def _fails_as_a_whole(task: Row) -> bool:
    if task["items"] is None or task["state"] == "queued":
        return False
    has_outcomes = task["items_succeeded"] + task["items_failed"] > 0
    most: int = max(task["max_attempts"], 3 if has_outcomes else 0)
    return bool(task["failures"] >= most)


def _failed_on(data: Data, task: Row) -> list[str] | None:
    if task["version"] <= 1 or task["items"] is not None:
        return None
    every = data.attempts.of("task", task["id"])
    return sorted({row["node_id"] for row in every if row["state"] in ("failed", "lost")})


def _took_seconds(task: Row) -> float | None:
    if task["state"] != "succeeded":
        return None
    if task["items"] is not None:
        done: int = task["items_succeeded"] + task["items_failed"]
        return task["items_seconds"] / done if done else None
    if task["started_at"] is None or task["failures"] + task["losses"] != 0:
        return None
    took: float = (task["finished_at"] - task["started_at"]).total_seconds()
    return took


def _unseen(table: Table, seen: str) -> list[Row]:
    return [
        row
        for mark in _marks(table.values_of("changed"), seen)
        for row in table.of("changed", mark)
    ]


def _marks(marks: Iterable[int], seen: str) -> list[int]:
    return [mark for mark in marks if not _is_seen(mark, seen)]


def _is_seen(mark: int, seen: str) -> bool:
    """Whether a snapshot sees what a transaction did; as `pg_visible_in_snapshot`."""
    lowest, highest, running = seen.split(":")
    if mark < int(lowest):
        return True
    return mark < int(highest) and str(mark) not in running.split(",")
