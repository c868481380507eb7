"""A round at once when something changed, and every few seconds in any case."""

from potluck.server import topics
from potluck.server.flow.schedule import Reasons, schedule_once
from potluck.server.parts import Parts
from potluck.store.leader import Leadership


class ScheduleLoop:
    def __init__(self, parts: Parts, leadership: Leadership) -> None:
        self._parts = parts
        self._leadership = leadership
        self._reasons = Reasons(parts)

    async def run_once(self) -> None:
        async with self._parts.live.listen(topics.SCHEDULE) as listener:
            done = await schedule_once(self._parts, self._leadership)
            await self._reasons.publish(done.waiting)
            poll = self._parts.settings.schedule_poll_seconds
            await listener.wait(min(poll, done.next_ready_seconds or poll))
