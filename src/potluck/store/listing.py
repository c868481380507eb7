"""Which of an account's tasks to show: filtered, in pages, quick however many there are.

A task's id begins with the time at which it came, so a time is a bound on the id, and the last id
of a page is the cursor of the next.
"""

from datetime import datetime

from msgspec import Struct

from potluck.model.ids import AccountId, TaskId, first_id_at
from potluck.model.task import ScriptSpec, TaskState
from potluck.store.database import Connection
from potluck.store.named import load

_sql = load("listing")
# As the column has them; all kinds that a spec can be of.
KINDS = (str(ScriptSpec.__struct_config__.tag),)
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
    first = _FIRST if wanted.since is None else first_id_at("task", wanted.since)
    until = _BEHIND_ALL if wanted.until is None else first_id_at("task", wanted.until)
    common = (account_id, first, min(until, before or until), limit)
    if not (wanted.states or wanted.kind or wanted.name):
        return _sql.newest, *common
    # Each once: a state that was named twice would show its tasks twice.
    states = list(dict.fromkeys(wanted.states or TaskState))
    kinds = [wanted.kind] if wanted.kind else list(KINDS)
    if wanted.name is None:
        return _sql.newest_by_state, *common, states, kinds
    return _sql.newest_by_name, *common, states, kinds, wanted.name
