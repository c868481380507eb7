"""Models of queries/picture.sql."""

from collections.abc import Iterable

import msgspec

from potluck.simulate.store.capacity import is_well_used
from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.spans import Spans
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("picture")


@models(_sql.one_moment)
def one_moment(_: Data) -> list[Row]:
    return []


@models(_sql.all_tasks)
def all_tasks(data: Data) -> list[Row]:
    return [{"id": row["id"]} for row in data.tasks.all()]


@models(_sql.all_attempts)
def all_attempts(data: Data) -> list[Row]:
    return [{"id": row["id"]} for row in data.attempts.all()]


@models(_sql.all_nodes)
def all_nodes(data: Data) -> list[Row]:
    return [{"id": row["id"]} for row in data.nodes.all()]


@models(_sql.all_accounts)
def all_accounts(data: Data) -> list[Row]:
    return [{"id": row["account_id"]} for row in data.balances.all()]


_TASK = (
    *("id", "state", "reason", "waits_for", "items"),
    *("allow_failures", "items_succeeded", "items_failed"),
)


@models(_sql.tasks)
def tasks(data: Data, task_ids: list[str]) -> list[Row]:
    return [_task(data, row) for row in map(data.tasks.get, _once(task_ids)) if row is not None]


def _task(data: Data, task: Row) -> Row:
    attempts = sorted(data.attempts.of("task", task["id"]), key=lambda row: row["id"])
    live = [row for row in attempts if row["finished_at"] is None]
    failed = [row["item"] for row in data.failed_items.of("task", task["id"]) if row["is_final"]]
    return {
        **{column: task[column] for column in _TASK},
        "pending": _text(task["pending"]),
        "failed": sorted(failed),
        "remaining": [_text(row["remaining"]) for row in live],
        "accepted": sum(row["state"] == "succeeded" for row in attempts),
        "dependencies": len(data.dependencies.of("task", task["id"])),
    }


@models(_sql.histories)
def histories(data: Data, task_ids: list[str]) -> list[Row]:
    told = ((task_id, history(data, task_id)) for task_id in _once(task_ids))
    return [{"id": task_id, "states": states} for task_id, states in told if states]


def history(data: Data, task_id: str) -> list[str | None]:
    events = sorted(data.events.of("task", task_id), key=lambda row: row["id"])
    return [_told(event) for event in events if event["kind"].startswith("task.")]


def _told(event: Row) -> str | None:
    _, _, state = event["kind"].partition(".")
    if state != "finished":
        return str(state)
    said: str | None = msgspec.json.decode(event["data"]).get("state")
    return said


@models(_sql.attempts)
def attempts(data: Data, attempt_ids: list[str]) -> list[Row]:
    found = [row for row in map(data.attempts.get, _once(attempt_ids)) if row is not None]
    return [_attempt(row, data.ledger_entries.of("attempt", row["id"])) for row in found]


def _attempt(row: Row, entries: list[Row]) -> Row:
    settled = [each["adoption"] + 1 for each in entries if each["kind"] in ("charge", "refund")]
    return {
        **{column: row[column] for column in ("id", "state", "hold_micro", "charge_micro")},
        "lives": row["adoptions"] + 1,
        "held_micro": sum(each["amount_micro"] for each in entries if each["purse"] == "held"),
        "charged_micro": -sum(each["amount_micro"] for each in entries if each["kind"] == "charge"),
        "settled": max(settled, default=0),
    }


_CAPACITY = ("cores", "memory_bytes", "disk_bytes")


@models(_sql.nodes)
def nodes(data: Data, node_ids: list[str]) -> list[Row]:
    found = [row for row in map(data.nodes.get, _once(node_ids)) if row is not None]
    return [_node(row, data.attempts.of("live_of_node", row["id"])) for row in found]


def _node(node: Row, live: list[Row]) -> Row:
    return {
        "id": node["id"],
        **{f"used_{what}": node[f"used_{what}"] for what in _CAPACITY},
        **{f"reserved_{what}": sum(row[what] for row in live) for what in _CAPACITY},
    }


@models(_sql.devices)
def devices(data: Data, node_ids: list[str]) -> list[Row]:
    found = [row for node_id in _once(node_ids) for row in data.devices.of("node", node_id)]
    return [_device(data, row) for row in sorted(found, key=lambda row: row["id"])]


def _device(data: Data, device: Row) -> Row:
    shares = [
        (share, attempt)
        for share in data.attempt_devices.of("device", device["id"])
        if (attempt := data.attempts.get(share["attempt_id"])) and attempt["finished_at"] is None
    ]
    accounts = {attempt["consumer_id"] for _, attempt in shares}
    return {
        "id": device["id"],
        "used_milli": 1000 - device["free_milli"],
        "used_memory_bytes": device["used_memory_bytes"],
        "reserved_milli": sum(share["milli"] for share, _ in shares),
        "reserved_memory_bytes": sum(share["memory_bytes"] for share, _ in shares),
        "accounts": len(accounts),
        "may_serve_several": is_well_used(data, device, [row for _, row in shares]),
    }


@models(_sql.quick_to_add_up)
def quick_to_add_up(data: Data, account_ids: list[str], most: int) -> list[Row]:
    return [
        {"id": account_id}
        for account_id in account_ids
        if len(data.ledger_entries.of("account", account_id)) <= most
    ]


@models(_sql.purses)
def purses(data: Data, account_ids: list[str]) -> list[Row]:
    found = [row for row in map(data.balances.get, _once(account_ids)) if row is not None]
    return [_purse(row, data.ledger_entries.of("account", row["account_id"])) for row in found]


def _purse(row: Row, entries: list[Row]) -> Row:
    return {
        **{column: row[column] for column in ("account_id", "available_micro", "held_micro")},
        **{
            f"entries_{purse}_micro": sum(
                each["amount_micro"] for each in entries if each["purse"] == purse
            )
            for purse in ("available", "held")
        },
    }


@models(_sql.entries_sum)
def entries_sum(data: Data) -> list[Row]:
    return [{"sum": sum(row["amount_micro"] for row in data.ledger_entries.all())}]


def _once(ids: Iterable[str]) -> list[str]:
    return sorted(set(ids))


def _text(spans: Spans) -> str:
    return "{" + ",".join(f"[{start},{end})" for start, end in spans) + "}"
