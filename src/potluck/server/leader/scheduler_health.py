"""Whether the scheduler fails, kept in `live` for all instances.

The error itself stays in the leader's log, since every user may read this flag.
"""

from potluck.model.task import WaitingReason
from potluck.server import topics
from potluck.server.services import Services

REASON = WaitingReason(
    "scheduler_fails",
    "The scheduler is failing, so no task starts. The leader's log has the error.",
)
# A failure repeats about every second; a leader that is gone does not repeat it.
_KEPT_SECONDS = 30.0


class SchedulerHealth:
    def __init__(self, services: Services) -> None:
        self._live = services.live
        self._failing = services.metrics.scheduler_failing
        self._may_be_set = True  # by an earlier leader

    async def begin(self) -> None:
        self._failing.set(1)
        await self._live.put(topics.TROUBLE, b"1", _KEPT_SECONDS)
        self._may_be_set = True

    async def end(self) -> None:
        self._failing.set(0)
        if self._may_be_set:
            await self._live.drop(topics.TROUBLE)
            self._may_be_set = False


async def is_failing(services: Services) -> bool:
    return await services.live.get(topics.TROUBLE) is not None
