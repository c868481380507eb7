"""Which of an account's tasks to show: filtered, in pages, quick however many there are.

A task's id begins with the time at which it came, so a time is a bound on the id, and the last id
of a page is the cursor of the next.
"""

from datetime import datetime

from msgspec import Struct

from potluck.model.ids import AccountId, TaskId, first_id_at
from potluck.model.task import TaskState
from potluck.model.terms import TaskKind
from potluck.store.database import Connection
from potluck.store.sql_files import load

_sql = load("listing")
# As the column has them; all kinds that a spec can be of.
KINDS = tuple(TaskKind)
_FIRST, _BEHIND_ALL = "task_", "task_~"


class TaskFilter(Struct, frozen=True):
    """What must be true of a task to be listed; what is not said is true of all."""

    states: tuple[TaskState, ...] = ()  # one of these
    name: str | None = None
    kind: str | None = None
    since: datetime | None = None  # submitted then or later
    until: datetime | None = None  # submitted before


async def page(
    connection: Connection,
    account_id: AccountId,
    wanted: TaskFilter,
    before: TaskId | None,
    limit: int,
) -> list[TaskId]:
    """Ids, newest first, of tasks older than `before`."""
    rows = await connection.fetch(*_query(account_id, wanted, before, limit))
    return [TaskId(row["id"]) for row in rows]


def _query(
    account_id: AccountId, wanted: TaskFilter, before: TaskId | None, limit: int
) -> tuple[object, ...]:
    """The statement and its values: each state and kind of the account is a key of its own."""
    first = _FIRST if wanted.since is None else first_id_at("task", wanted.since)
    until = _BEHIND_ALL if wanted.until is None else first_id_at("task", wanted.until)
    bounds = (first, min(until, before or until), limit)
    # Each state once: one that was named twice would show its tasks twice.
    states = dict.fromkeys(wanted.states or TaskState)
    kinds = [wanted.kind] if wanted.kind else KINDS
    ends = [f"{state}/{kind}" for state in states for kind in kinds]
    if wanted.name is None:
        return _sql.newest_by_state, *bounds, [f"{account_id}/{end}" for end in ends]
    return _sql.newest_by_name, *bounds, [f"{account_id}/{wanted.name}/{end}" for end in ends]
