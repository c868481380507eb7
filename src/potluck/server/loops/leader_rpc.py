"""Answers what other instances ask the leader: at once when woken, and every second in any case."""

from potluck.server import topics
from potluck.server.flow.schedule.explain_task import answer_once
from potluck.server.leader.memory import Memory
from potluck.server.services import Parts


class AnswerLoop:
    def __init__(self, parts: Parts, memory: Memory) -> None:
        self._parts = parts
        self._memory = memory

    async def run_once(self) -> None:
        async with self._parts.live.listen(topics.QUESTIONS) as listener:
            await answer_once(self._parts, self._memory)
            await listener.wait(self._parts.settings.notify_poll_seconds)
