"""Models of queries/items.sql."""

import asyncpg

from potluck.simulate.store import spans
from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.named import load

_sql = load("items")


@models(_sql.lock_range)
def lock_range(data: Data, attempt_id: str, node_id: str) -> list[Row]:
    attempt = data.attempts.get(attempt_id)
    if attempt is None or attempt["node_id"] != node_id:
        return []
    if attempt["finished_at"] is not None or attempt["items"] is None:
        return []
    task = data.tasks.get(attempt["task_id"])
    assert task is not None, "an attempt has a task"
    left = spans.shown(attempt["remaining"])
    since = attempt["fetched_at"] or attempt["assigned_at"]
    told = {
        "max_attempts": task["max_attempts"],
        "pending_pieces": len(task["pending"]),
        "most_seconds": (data.now - since).total_seconds() - attempt["items_seconds"],
    }
    of = {"task_id": task["id"], "consumer_id": attempt["consumer_id"], "kind": task["kind"]}
    return [{**of, "remaining": left, **told}]


@models(_sql.failures)
def failures(data: Data, task_id: str, items: list[int]) -> list[Row]:
    found = (data.failed_items.get((task_id, item)) for item in sorted(set(items)))
    return [{"item": row["item"], "failures": row["failures"]} for row in found if row is not None]


@models(_sql.accept)
def accept(
    data: Data,
    task_id: str,
    attempt_id: str,
    done: "list[asyncpg.Range[int]]",
    done_count: int,
    seconds: float,
    succeeded_count: int,
    again: "list[asyncpg.Range[int]]",
    failed_count: int,
) -> list[Row]:
    attempt, task = data.attempts.get(attempt_id), data.tasks.get(task_id)
    if attempt is not None:
        changes = {
            "remaining": spans.without(attempt["remaining"], spans.of(done)),
            "items_done": attempt["items_done"] + done_count,
            "items_failed": attempt["items_failed"] + done_count - succeeded_count,
            "items_seconds": attempt["items_seconds"] + seconds,
            "progressed_at": data.now,
        }
        data.attempts.update(attempt, changes)
    if task is not None:
        changes = {
            "items_succeeded": task["items_succeeded"] + succeeded_count,
            "pending": spans.union(task["pending"], spans.of(again)),
            "items_failed": task["items_failed"] + failed_count,
            "items_seconds": task["items_seconds"] + seconds,
            "failures": 0,
            "updated_at": data.now,
            "version": task["version"] + 1,
        }
        data.tasks.update(task, changes)
    return []


@models(_sql.fail)
def fail(
    data: Data,
    task_id: str,
    attempt_id: str,
    items: list[int],
    counts: list[int],
    finals: list[bool],
    reasons: list[str],
    exit_codes: list[int | None],
    details: list[str],
) -> list[Row]:
    columns = ("failures", "is_final", "reason", "exit_code", "detail")
    for item, *how in zip(items, counts, finals, reasons, exit_codes, details, strict=True):
        told = {"attempt_id": attempt_id, **dict(zip(columns, how, strict=True))}
        before = data.failed_items.get((task_id, item))
        if before is None:
            data.failed_items.insert({"task_id": task_id, "item": item, **told})
        else:
            data.failed_items.update(before, told)
    return []


@models(_sql.page)
def page(data: Data, task_id: str, behind: int, limit: int) -> list[Row]:
    found = [row for row in data.failed_items.of("task", task_id) if row["item"] > behind]
    return sorted(found, key=lambda row: row["item"])[:limit]
