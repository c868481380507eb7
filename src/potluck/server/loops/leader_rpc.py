"""Answers questions of other instances to the leader: when woken, and every second."""

from potluck.server import topics
from potluck.server.flow.schedule.explain_task import answer_once
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services


class LeaderRpcLoop:
    def __init__(self, services: Services, memory: LeaderMemory) -> None:
        self._services = services
        self._memory = memory

    async def run_once(self) -> None:
        async with self._services.live.listen(topics.QUESTIONS) as listener:
            await answer_once(self._services, self._memory)
            await listener.wait(self._services.settings.notify_poll_seconds)
