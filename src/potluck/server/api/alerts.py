"""Alerts: what is wrong, their destinations and silences; and the errors of the server."""

from typing import Annotated, Final

from litestar.params import QueryParameter

from potluck.model.account import Scope
from potluck.model.alert import AlertName, AlertState
from potluck.model.error import NotFound
from potluck.model.ids import is_id
from potluck.server.alerts import administration
from potluck.server.api.area import Area
from potluck.server.api.examples.names import ACCOUNT, NODE, SILENCE, at
from potluck.server.api.http.pagination import LongLimit
from potluck.server.api.http.parameters import CallerRequest
from potluck.server.services import Services
from potluck.store.alerts import alerts, error_log
from potluck.wire import routes
from potluck.wire.alerts import (
    AlertPage,
    AlertTest,
    AlertTestResult,
    AlertView,
    ErrorGroup,
    ErrorPage,
    NewSilence,
    SilenceView,
)

_LAST = 2**62
AlertCursor = Annotated[int, QueryParameter(name="cursor", ge=1, le=_LAST)]
_DETAIL = f"attic ({NODE}) has been silent for 5 min 0 s."
_SILENCE = SilenceView(
    *(SILENCE, AlertName.NODE_LOST, NODE, at(11, 30), ACCOUNT), *("being repaired", at(9, 30))
)

AREA: Final = Area(
    "alerts",
    "For admins: what is wrong with the pool, whether messages about it arrive, which alerts are "
    "silenced, and which errors the server has logged.",
)


@AREA.operation(
    routes.LIST_ALERTS,
    Scope.ADMIN,
    "List alerts",
    response=AlertPage(
        [
            AlertView(
                *(42, AlertName.NODE_LOST, NODE, AlertState.FIRING, _DETAIL, at(9, 25), at(9, 30)),
                notified_at=at(9, 30),
                node_id=NODE,
                is_silenced=True,
            )
        ],
        [_SILENCE],
        42,
    ),
)
async def list_alerts(
    services: Services, cursor: AlertCursor = _LAST, limit: LongLimit = 100
) -> AlertPage:
    """Lists alerts, newest first, also resolved ones, and the silences in effect."""
    async with services.database.transaction() as connection:
        silences = await alerts.list_silences(connection)
        known, now = alerts.as_silences(silences), services.clock.now()
        rows = await alerts.page(connection, cursor, limit + 1, known, now)
    more = len(rows) > limit
    return AlertPage(rows[:limit], silences, rows[limit - 1].id if more else None)


@AREA.operation(
    routes.TEST_ALERTS,
    Scope.ADMIN,
    "Send a test message",
    response=AlertTest([AlertTestResult("1 (mailtos)", True, 0.8)]),
    status_code=200,
    is_timed=False,
)
async def test_alerts(services: Services) -> AlertTest:
    """Sends a test message to each destination of the settings, and returns which arrived."""
    return await administration.send_test(services)


@AREA.operation(
    routes.SILENCE_ALERTS,
    Scope.ADMIN,
    "Silence alerts",
    request=NewSilence(AlertName.NODE_LOST, NODE, 7_200.0, "being repaired"),
    response=_SILENCE,
)
async def silence_alerts(
    data: NewSilence, request: CallerRequest, services: Services
) -> SilenceView:
    """Sends no messages about matching alerts for a while. They are still listed."""
    return await administration.silence(services, request.user.id, data)


@AREA.operation(routes.END_SILENCE, Scope.ADMIN, "End a silence", status_code=204)
async def end_silence(silence_id: str, request: CallerRequest, services: Services) -> None:
    """Messages about alerts that still fire are sent again."""
    if not is_id(silence_id, "silence"):
        raise NotFound(
            f"There is no silence {silence_id[:64]!r}.", "`potluck admin alerts` lists them."
        )
    await administration.end_silence(services, request.user.id, silence_id)


@AREA.operation(
    routes.LIST_ERRORS,
    Scope.ADMIN,
    "List the server's errors",
    response=ErrorPage(
        [
            ErrorGroup(
                "9f86d081884c",
                "KeyError",
                "potluck.server.flow.settle.settle.write_changes",
                "'attempt'",
                "Traceback (most recent call last): …",
                "first-machine:8470",
                3,
                at(9, 30),
                at(9, 41),
            )
        ]
    ),
)
async def list_errors(services: Services, limit: LongLimit = 100) -> ErrorPage:
    """Lists errors of all instances by kind and place, the latest first; at most a thousand are
    kept. Messages and traces are of the last one, and contain no secrets."""
    async with services.database.transaction() as connection:
        return ErrorPage(await error_log.list_latest(connection, limit))
