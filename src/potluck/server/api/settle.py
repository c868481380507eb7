"""Costs and earnings."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from litestar.params import QueryParameter

from potluck.model.account import Scope
from potluck.model.credit import EntryKind
from potluck.model.error import InvalidInput
from potluck.server.api.area import Area
from potluck.server.api.examples.names import ATTEMPT, DEVICE, NODE, TASK, at
from potluck.server.api.http.pagination import Limit, bad_cursor
from potluck.server.api.http.parameters import CallerRequest, wanted_task
from potluck.server.api.http.time_params import OLDEST, Since, Until, moment
from potluck.server.auth.caller import Caller
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.ledger import statement
from potluck.store.ledger.earnings import read_earnings
from potluck.store.ledger.statement import EntryFilter, LedgerPosition
from potluck.wire import routes
from potluck.wire.money.ledger import LedgerEntry, LedgerLine, LedgerPage, LedgerSummary, LineBy
from potluck.wire.own_machines import Earned, Earnings, UsedInAll

Kinds = Annotated[
    list[EntryKind] | None, QueryParameter(name="kind", max_items=len(EntryKind), required=False)
]
Task = Annotated[str | None, QueryParameter(name="task_id", max_length=64, required=False)]
LedgerCursor = Annotated[
    int | None, QueryParameter(name="cursor", ge=1, le=2**63 - 1, required=False)
]
By = Annotated[LineBy, QueryParameter(name="by")]
_USUAL = timedelta(days=30)
_LONGEST = timedelta(days=400)
_BEHIND_ALL = LedgerPosition(datetime(9999, 1, 1, tzinfo=UTC))

# Examples.
_HOLD = LedgerEntry(
    41, at(9, 40, 2), EntryKind.HOLD, -41_667, 41_667, TASK, "hello", ATTEMPT, "attic"
)
_CHARGE = LedgerEntry(42, at(9, 40, 16), EntryKind.CHARGE, 0, -868, TASK, "hello", ATTEMPT, "attic")
_USED = UsedInAll(11.9, 12.1, 4_900.0)

AREA: Final = Area(
    "settle", "Costs and earnings. Amounts are integers in millionths of a credit: `…_micro`."
)


@AREA.operation(
    routes.LEDGER,
    Scope.ACCOUNT_READ,
    "List your ledger entries",
    response=LedgerPage([_CHARGE, _HOLD], _HOLD.id),
)
async def ledger(
    request: CallerRequest,
    services: Services,
    cursor: LedgerCursor = None,
    kinds: Kinds = None,
    task_id: Task = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> LedgerPage:
    """Lists your ledger entries, newest first, filtered by kind, task and time."""
    first = OLDEST if since is None else moment(since)
    before = _BEHIND_ALL if until is None else LedgerPosition(moment(until))
    task = None if task_id is None else wanted_task(task_id)
    async with services.database.transaction() as connection:
        if cursor is not None:
            before = min(before, await _place(connection, cursor, request.user))
        filters = EntryFilter(kinds or tuple(EntryKind), first, before, task)
        rows = await statement.newest(connection, request.user.id, filters, limit)
    return LedgerPage(rows, rows[-1].id if len(rows) == limit else None)


@AREA.operation(
    routes.LEDGER_SUMMARY,
    Scope.ACCOUNT_READ,
    "Summarise your ledger by day or task",
    response=LedgerSummary(
        4_250_000,
        0,
        at(0, 0),
        at(12, 0),
        0,
        868,
        0,
        [LedgerLine(0, 868, 0, date(2026, 11, 16))],
        is_free=False,
    ),
)
async def ledger_summary(
    request: CallerRequest,
    services: Services,
    by: By = LineBy.DAY,
    since: Since = None,
    until: Until = None,
) -> LedgerSummary:
    """Returns your balance, and totals by day or task. Covers the last 30 days by default."""
    end = services.clock.now() if until is None else moment(until)
    begin = max(end, OLDEST) - _USUAL if since is None else moment(since)
    if end - begin > _LONGEST:
        raise InvalidInput(
            f"A summary covers at most {_LONGEST.days} days.",
            "Choose a shorter time, or add up several summaries.",
        )
    async with services.database.transaction() as connection:
        return await statement.summary(connection, request.user.id, begin, end, by)


@AREA.operation(
    routes.EARNINGS,
    Scope.ACCOUNT_READ,
    "See what your machines earned",
    response=Earnings(
        at(0, 0),
        at(12, 0),
        1,
        12.5,
        868,
        8,
        [Earned(date(2026, 11, 16), NODE, "attic", DEVICE, 1, 12.5, 868, 8, _USED)],
        _USED,
    ),
)
async def earnings(
    request: CallerRequest, services: Services, since: Since = None, until: Until = None
) -> Earnings:
    """Lists earnings by day, node and device of ended attempts. The default is the last 30 days."""
    end = services.clock.now() if until is None else moment(until)
    begin = max(end, OLDEST) - _USUAL if since is None else moment(since)
    async with services.database.transaction() as connection:
        return await read_earnings(connection, request.user.id, begin, end)


async def _place(connection: Connection, cursor: int, caller: Caller) -> LedgerPosition:
    position = await statement.place(connection, cursor, caller.id)
    if position is None:
        raise bad_cursor()
    return position
