"""That the scheduler fails, kept in `live` for all instances: nothing starts, and only a log knows.

What it fails with stays in the log of the instance that leads; here stands only that it does, since
everybody may read it.
"""

from potluck.model.task import WaitingReason
from potluck.server import topics
from potluck.server.services import Services

REASON = WaitingReason(
    "scheduler_fails",
    "The scheduler fails, so nothing starts. The log of the server that leads says why.",
)
# It fails again and again, about every second; a leader that is gone does not fail any more.
_KEPT_SECONDS = 30.0


class SchedulerHealth:
    def __init__(self, services: Services) -> None:
        self._live = services.live
        self._may_be_told = True  # by a leader before this one

    async def begin(self) -> None:
        await self._live.put(topics.TROUBLE, b"1", _KEPT_SECONDS)
        self._may_be_told = True

    async def end(self) -> None:
        if self._may_be_told:
            await self._live.drop(topics.TROUBLE)
            self._may_be_told = False


async def is_in_trouble(services: Services) -> bool:
    return await services.live.get(topics.TROUBLE) is not None
