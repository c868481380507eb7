"""Empties the outbox: at once when something was written, and every second in any case."""

from potluck.server import topics
from potluck.server.flow.notify import notify_once
from potluck.server.parts import Parts


class NotifyLoop:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run_once(self) -> None:
        async with self._parts.live.listen(topics.OUTBOX) as listener:
            while await notify_once(self._parts):
                pass
            await listener.wait(self._parts.settings.notify_poll_seconds)
