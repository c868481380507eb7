"""One's own ledger: what came, what went, and what for."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from potluck.model.credit import EntryKind
from potluck.model.error import InvalidInput
from potluck.server.api.tasks import wanted_task
from potluck.server.api.time_params import (
    OLDEST,
    Since,
    Until,
    moment,
)
from potluck.server.auth.caller import Caller
from potluck.server.services import Parts
from potluck.store.database import Connection
from potluck.store.ledger import statement
from potluck.store.ledger.statement import EntryFilter, Place
from potluck.wire import routes
from potluck.wire.ledger import LedgerPage, LedgerSummary, LineBy

Kinds = Annotated[
    list[EntryKind] | None, QueryParameter(name="kind", max_items=len(EntryKind), required=False)
]
Task = Annotated[str | None, QueryParameter(name="task_id", max_length=64, required=False)]
Cursor = Annotated[int | None, QueryParameter(name="cursor", ge=1, le=2**63 - 1, required=False)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=500)]
By = Annotated[LineBy, QueryParameter(name="by")]

_USUAL = timedelta(days=30)
_LONGEST = timedelta(days=400)
_BEHIND_ALL = Place(datetime(9999, 1, 1, tzinfo=UTC))


class LedgerController(Controller):
    @get(routes.LEDGER.template, operation_id="ledger")
    async def ledger(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
        cursor: Cursor = None,
        kinds: Kinds = None,
        task_id: Task = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 50,
    ) -> LedgerPage:
        """Movements of your credit, newest first: of these kinds, for this task, in this time."""
        first = OLDEST if since is None else moment(since)
        before = _BEHIND_ALL if until is None else Place(moment(until))
        task = None if task_id is None else wanted_task(task_id)
        async with parts.database.transaction() as connection:
            if cursor is not None:
                before = min(before, await _place(connection, cursor, request.user))
            wanted = EntryFilter(kinds or tuple(EntryKind), first, before, task)
            found = await statement.newest(connection, request.user.id, wanted, limit)
        return LedgerPage(found, found[-1].id if len(found) == limit else None)

    @get(routes.LEDGER_SUMMARY.template, operation_id="ledger_summary")
    async def summary(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
        by: By = LineBy.DAY,
        since: Since = None,
        until: Until = None,
    ) -> LedgerSummary:
        """Your balance, and what came and went by day or task; the last 30 days if not said."""
        end = datetime.now(UTC) if until is None else moment(until)
        begin = max(end, OLDEST) - _USUAL if since is None else moment(since)
        if end - begin > _LONGEST:
            raise InvalidInput(
                f"A summary has at most {_LONGEST.days} days.",
                "Name `since` and `until` that are nearer, and add several up.",
            )
        async with parts.database.transaction() as connection:
            return await statement.summary(connection, request.user.id, begin, end, by)


async def _place(connection: Connection, cursor: int, caller: Caller) -> Place:
    found = await statement.place(connection, cursor, caller.id)
    if found is None:
        raise InvalidInput("That cursor is none.", "Use `next_cursor` of the page before.")
    return found
