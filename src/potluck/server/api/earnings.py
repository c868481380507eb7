"""What the machines of one's own account have earned."""

from datetime import UTC, datetime, timedelta
from typing import Any

from litestar import Controller, Request, get

from potluck.server.api.time_params import (
    OLDEST,
    Since,
    Until,
    moment,
)
from potluck.server.auth.caller import Caller
from potluck.server.services import Parts
from potluck.store.ledger import earnings
from potluck.wire import routes
from potluck.wire.own_machines import Earnings

_USUAL = timedelta(days=30)


class EarningsController(Controller):
    @get(routes.EARNINGS.template, operation_id="earnings")
    async def earnings(
        self,
        request: Request[Caller, Any, Any],
        parts: Parts,
        since: Since = None,
        until: Until = None,
    ) -> Earnings:
        """By day, node and device, from attempts that ended then; the last 30 days if not said."""
        end = datetime.now(UTC) if until is None else moment(until)
        begin = max(end, OLDEST) - _USUAL if since is None else moment(since)
        async with parts.database.transaction() as connection:
            return await earnings.earned(connection, request.user.id, begin, end)
