"""The owner's request to stop after the running tasks, perhaps for good."""

import asyncio

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
