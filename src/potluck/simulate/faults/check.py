"""The invariants after a transaction: of all that it touched, and of nothing else.

A fact brings with it all that its sentences are about, and what no transaction touched is as true
as it was. So a step costs the same in a pool of thousands.
"""

from msgspec.structs import replace

from potluck.decide.invariants import (
    AttemptFact,
    DeviceFact,
    NodeFact,
    Picture,
    PurseFact,
    violations,
)
from potluck.model.lease import AttemptState
from potluck.model.task import TaskState
from potluck.simulate.store import picture
from potluck.simulate.store.data import Data
from potluck.simulate.store.rows import Row, Table
from potluck.store.scheduler.invariant_snapshot import task_fact

# Of which task, attempt, node and account a row of each table tells something.
_SUBJECTS = {
    "tasks": {"task": "id"},
    "dependencies": {"task": "task_id"},
    "failed_items": {"task": "task_id"},
    "events": {"task": "task_id"},
    "attempts": {"attempt": "id", "task": "task_id", "node": "node_id"},
    "attempt_devices": {"attempt": "attempt_id"},
    "nodes": {"node": "id"},
    "devices": {"node": "node_id"},
    "balances": {"account": "account_id"},
    "ledger_entries": {"attempt": "attempt_id", "account": "account_id"},
}


def violations_after(data: Data) -> list[str]:
    """What does not hold of the rows that the last transaction wrote."""
    if not data.log.written:
        return []
    return violations(_picture(data, _touched(data)))


def all_violations(data: Data) -> list[str]:
    everything = {
        "task": [row["id"] for row in data.tasks.all()],
        "attempt": [row["id"] for row in data.attempts.all()],
        "node": [row["id"] for row in data.nodes.all()],
        "account": [row["account_id"] for row in data.balances.all()],
    }
    whole = _picture(data, everything)
    entries = sum(row["amount_micro"] for row in data.ledger_entries.all())
    return violations(replace(whole, entries_sum_micro=entries))


def _touched(data: Data) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {"task": set(), "attempt": set(), "node": set(), "account": set()}
    for table, key, before in data.log.written:
        subjects = _SUBJECTS.get(table.name)
        row = table.get(key) or before
        if subjects is not None and row is not None and not _is_beat(table, row, before):
            for kind, column in subjects.items():
                if row[column] is not None:
                    found[kind].add(row[column])
    return {kind: sorted(ids) for kind, ids in found.items()}


def _is_beat(table: Table, row: Row, before: Row | None) -> bool:
    """A node was heard, and nothing else about it changed: there are very many of these."""
    return table.name == "nodes" and before is not None and row["changed"] == before["changed"]


def _picture(data: Data, ids: dict[str, list[str]]) -> Picture:
    return Picture(
        tasks=tuple(
            replace(task_fact(row), history=_history(data, row["id"]))
            for row in picture.tasks(data, ids["task"])
        ),
        attempts=tuple(
            AttemptFact(**_typed(row)) for row in picture.attempts(data, ids["attempt"])
        ),
        nodes=tuple(NodeFact(**row) for row in picture.nodes(data, ids["node"])),
        devices=tuple(DeviceFact(**row) for row in picture.devices(data, ids["node"])),
        purses=tuple(PurseFact(**row) for row in picture.purses(data, ids["account"])),
    )


def _history(data: Data, task_id: str) -> tuple[TaskState, ...]:
    return tuple(TaskState(str(state)) for state in picture.history(data, task_id))


def _typed(row: Row) -> Row:
    return {**row, "state": AttemptState(row["state"])}
