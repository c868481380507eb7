"""What the machines of one's own account have earned."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from litestar import Controller, Request, get
from litestar.params import QueryParameter

from potluck.model.error import InvalidInput
from potluck.server.auth.caller import Caller
from potluck.server.parts import Parts
from potluck.store import earnings
from potluck.wire import routes
from potluck.wire.owner import Earnings

Since = Annotated[datetime | None, QueryParameter(name="since", required=False)]
Until = Annotated[datetime | None, QueryParameter(name="until", required=False)]

_USUAL = timedelta(days=30)
_OLDEST = datetime(2000, 1, 1, tzinfo=UTC)  # before there was anything to earn


class EarningsController(Controller):
    tags = ("your account",)

    @get(routes.EARNINGS.template, operation_id="earnings")
    async def earnings(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
        since: Since = None,
        until: Until = None,
    ) -> Earnings:
        """By day, node and device, from attempts that ended then; the last 30 days if not said."""
        end = datetime.now(UTC) if until is None else _moment(until)
        begin = max(end, _OLDEST) - _USUAL if since is None else _moment(since)
        async with parts.database.transaction() as connection:
            return await earnings.earned(connection, request.user.id, begin, end)


def _moment(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise InvalidInput(
            "`since` and `until` need an offset from UTC.", "Write 2026-01-31T12:00:00Z."
        )
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidInput("That is beyond all calendars.", "Name a year of our time.") from None
