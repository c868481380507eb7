"""The listeners of one process, by topic; a topic without listeners is not stored."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from potluck.live.interface import Listener


class Listeners:
    def __init__(self) -> None:
        # In insertion order, so that the longest waiting is woken first.
        self._by_topic: dict[str, dict[_Woken, None]] = {}

    def wake(self, topic: str) -> None:
        for listener in self._by_topic.get(topic, ()):
            listener.wake()

    def wake_all(self) -> None:
        for topic in self._by_topic:
            self.wake(topic)

    @asynccontextmanager
    async def listen(self, *topics: str) -> AsyncIterator[Listener]:
        listener = _Woken()
        for topic in topics:
            self._by_topic.setdefault(topic, {})[listener] = None
        try:
            yield listener
        finally:
            for topic in topics:
                self._forget(topic, listener)

    def _forget(self, topic: str, listener: "_Woken") -> None:
        remaining = self._by_topic.get(topic, {})
        remaining.pop(listener, None)
        if not remaining:
            self._by_topic.pop(topic, None)


class _Woken:
    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def wait(self, timeout_seconds: float) -> bool:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self.event.wait()
        except TimeoutError:
            return False
        return self.take_wake()

    def wake(self) -> None:
        self.event.set()

    def take_wake(self) -> bool:
        is_woken = self.event.is_set()
        self.event.clear()
        return is_woken
