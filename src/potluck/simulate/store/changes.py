"""Model of queries/changes.sql."""

from typing import Any

from potluck.simulate.store import spans
from potluck.simulate.store.attempts import give_back
from potluck.simulate.store.data import Data
from potluck.simulate.store.events import append
from potluck.simulate.store.rows import Row
from potluck.simulate.store.statements import models
from potluck.simulate.store.tasks import counted, decide
from potluck.store.sql_files import load

_sql = load("changes")
_OF_ATTEMPT = (
    *("id", "state", "reason", "detail", "exit_code", "usage", "charge_micro", "report_hash"),
    *("has_begun", "is_over", "finished", "lost", "done", "items_done", "items_failed"),
    "items_seconds",
)
_OF_TASK = (
    *("id", "state", "is_decided", "reason", "detail", "exit_code", "has_begun", "has_outcomes"),
    *("failures", "losses", "charge_micro", "not_before", "back", "items_succeeded"),
    *("items_failed", "items_seconds", "pieces", "is_final"),
)
_RESULT_COLUMNS = 8


@models(_sql.write)
def write(data: Data, *columns: list[Any]) -> list[Row]:
    of_task = len(_OF_ATTEMPT) + len(_OF_TASK)
    for how in _rows(_OF_ATTEMPT, columns):
        attempt = data.attempts.get(how["id"])
        if attempt is not None and attempt["finished_at"] is None:
            _change(data, attempt, how)
    for how in _rows(_OF_TASK, columns[len(_OF_ATTEMPT) :]):
        task = data.tasks.get(how["id"])
        if task is not None:
            _move_on(data, task, how)
    assert not columns[of_task], "no simulated task gives anything"
    return append(data, *columns[of_task + _RESULT_COLUMNS :])


def _rows(names: tuple[str, ...], columns: tuple[list[Any], ...]) -> list[Row]:
    cells = zip(*columns[: len(names)], strict=True)
    return [dict(zip(names, row, strict=True)) for row in cells]


def _change(data: Data, attempt: Row, how: Row) -> None:
    said = ("state", "reason", "detail", "exit_code", "usage", "report_hash")
    added = ("charge_micro", "items_done", "items_failed", "items_seconds")
    changes = {
        **{column: how[column] for column in said},
        **{column: attempt[column] + how[column] for column in added},
        "started_at": _begun(data, attempt, how),
        "finished_at": data.now if how["is_over"] else None,
        "remaining": spans.without(attempt["remaining"], spans.read(how["done"])),
        "progressed_at": data.now if how["items_done"] else attempt["progressed_at"],
    }
    data.attempts.update(attempt, changes)
    if not how["is_over"]:
        return
    give_back(data, attempt, how["finished"], how["lost"])
    if how["reason"] == "withdrawn" and how["lost"]:
        node = data.nodes.get(attempt["node_id"])
        assert node is not None, "an attempt has a node"
        data.nodes.update(node, {"is_polling": False})


def _begun(data: Data, before: Row, how: Row) -> Any:
    return before["started_at"] or data.now if how["has_begun"] else before["started_at"]


def _move_on(data: Data, task: Row, how: Row) -> None:
    decided = ("reason", "detail", "exit_code")
    added = ("losses", "charge_micro", "items_succeeded", "items_failed", "items_seconds")
    times = [time for time in (task["not_before"], how["not_before"]) if time is not None]
    changes = {
        "state": how["state"],
        **({column: how[column] for column in decided} if how["is_decided"] else {}),
        **{column: task[column] + how[column] for column in added},
        "failures": (0 if how["has_outcomes"] else task["failures"]) + how["failures"],
        "started_at": _begun(data, task, how),
        "not_before": max(times, default=None),
        "pending": spans.union(task["pending"], spans.read(how["back"])),
        "finished_at": data.now if how["is_final"] else None,
        "sealed_secrets": None if how["is_final"] else task["sealed_secrets"],
    }
    data.tasks.update(task, {**changes, **counted(data, task)})
    if how["is_final"]:
        decide(data, task["id"], how["state"])
