"""Checks the invariants after a transaction, only for the rows that it changed.

Each fact contains everything that its invariants need, and unchanged rows cannot violate them. So a
step costs the same in a pool of thousands.
"""

from potluck.decide.invariants import InvariantSnapshot, check_invariants
from potluck.store.scheduler import invariant_snapshot
from verification.faults.row_changes import RowChange
from verification.faults.sessions import Sessions

# The columns of each table that name the task, attempt, node and account of a row.
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


def find_violations(sessions: Sessions, changes: list[RowChange]) -> list[str]:
    part = _changed_part(changes)
    return (
        check_invariants(sessions.complete(_read(sessions, part)))
        if part != invariant_snapshot.SnapshotScope()
        else []
    )


def find_all_violations(sessions: Sessions) -> list[str]:
    return check_invariants(sessions.complete(_read_all(sessions)))


async def _read(sessions: Sessions, part: invariant_snapshot.SnapshotScope) -> InvariantSnapshot:
    facts = await invariant_snapshot.read_part(sessions.observer, part)
    return await invariant_snapshot.with_histories(sessions.observer, facts)


async def _read_all(sessions: Sessions) -> InvariantSnapshot:
    async with sessions.observer.transaction():
        return await invariant_snapshot.read_all(sessions.observer)


def _changed_part(changes: list[RowChange]) -> invariant_snapshot.SnapshotScope:
    ids: dict[str, set[str]] = {"task": set(), "attempt": set(), "node": set(), "account": set()}
    for change in changes:
        if not _is_heartbeat(change):
            for subject, column in _SUBJECTS[change.table].items():
                if change.row[column] is not None:
                    ids[subject].add(change.row[column])
    return invariant_snapshot.SnapshotScope(*(tuple(sorted(ids[subject])) for subject in ids))


def _is_heartbeat(change: RowChange) -> bool:
    """Whether only the node's heartbeat changed, which is very frequent."""
    return (
        change.table == "nodes"
        and change.before is not None
        and change.row["changed"] == change.before["changed"]
    )
