"""The live side, shared by all instances, whose wake-ups and values may be lost."""

from collections.abc import Callable

from potluck.live.in_process import InProcessLive


class LossyLive(InProcessLive):
    """The flow must end the same way even if every wake-up is lost."""

    def __init__(self, clock: Callable[[], float], loses: Callable[[], bool]) -> None:
        super().__init__(clock)
        self._loses = loses

    async def wake(self, topic: str) -> None:
        if not self._loses():
            await super().wake(topic)

    async def put(self, key: str, value: bytes, ttl_seconds: float) -> None:
        if not self._loses():
            await super().put(key, value, ttl_seconds)
