"""The owner's request to stop after the running tasks, perhaps for good."""

import asyncio
import signal
from collections.abc import Callable

from potluck.model.error import PotluckError


class ShutdownRequest:
    def __init__(self) -> None:
        self.is_for_good = False
        self.failure: PotluckError | None = None  # why the node could not leave
        self._asked = asyncio.Event()
        self._over = asyncio.Event()

    def ask(self, is_for_good: bool = False) -> None:
        self.is_for_good = self.is_for_good or is_for_good
        self._asked.set()

    async def asked(self) -> None:
        await self._asked.wait()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def end(self, failure: PotluckError | None) -> None:
        self.failure = failure
        self._over.set()

    async def over(self) -> None:
        await self._over.wait()


def on_stop_signals(request_stop: Callable[[], None]) -> None:
    """Calls it at SIGTERM and SIGINT."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, request_stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(request_stop))
