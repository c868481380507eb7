"""Alive, and ready: for load balancers and for `potluck up`."""

from litestar import Controller, Response, get

from potluck import __version__
from potluck.model.error import Unavailable
from potluck.server.api.response import Answer
from potluck.server.leader.scheduler_health import is_in_trouble
from potluck.server.services import Parts
from potluck.store.scheduler import leader
from potluck.wire import routes
from potluck.wire.consumer import ServerHealth


class HealthController(Controller):
    @get(routes.HEALTHZ.template, operation_id="healthz")
    async def healthz(self) -> ServerHealth:
        """The process lives."""
        return ServerHealth("ok", __version__)

    @get(routes.READYZ.template, operation_id="readyz")
    async def readyz(self, parts: Parts) -> Response[ServerHealth]:
        """Everything that a request needs answers.

        A scheduler that fails keeps no request from being answered, so that alone is told with 200:
        what runs already would be lost if nobody could reach this server any more.
        """
        found = {
            "database": await _database(parts),
            "live": "ok" if await parts.live.ping() else "does not answer",
        }
        if all(state == "ok" for state in found.values()):
            fails = await is_in_trouble(parts)
            found["scheduler"] = (
                "fails; the log of the instance that leads says why" if fails else "ok"
            )
            return Answer(ServerHealth("degraded" if fails else "ok", __version__, found))
        health = ServerHealth("not ready", __version__, found)
        return Answer(health, status_code=503, headers={"Retry-After": "1"})


async def _database(parts: Parts) -> str:
    try:
        async with parts.database.transaction() as connection:
            return "ok" if await leader.is_led(connection) else "no instance leads"
    except Unavailable as error:
        return error.detail
