"""Models of queries/items.sql."""

from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.store.sql_files import load

_sql = load("items")


@models(_sql.failures)
def failures(data: Data, task_id: str, items: list[int]) -> list[Row]:
    found = (data.failed_items.get((task_id, item)) for item in sorted(set(items)))
    return [{"item": row["item"], "failures": row["failures"]} for row in found if row is not None]


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
