"""What the items of an attempt gave and the server has not taken yet, which is in our memory."""

import asyncio

from potluck.model.task import MIB
from potluck.provider.event import ItemsEnded
from potluck.wire.provider import ItemsDone

MOST_BYTES = 64 * MIB


class Backlog:
    """Of one attempt. Whoever makes it longer waits for room, and with him the task."""

    def __init__(self) -> None:
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    def add(self, told: ItemsEnded) -> None:
        self._change(carried_bytes(told))

    def remove(self, report: ItemsDone) -> None:
        """The server has it."""
        self._change(-carried_bytes(report))

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    async def room(self) -> None:
        await self._room.wait()

    def _change(self, by_bytes: int) -> None:
        self._bytes = max(0, self._bytes + by_bytes)
        if self._bytes > MOST_BYTES:
            self._room.clear()
        else:
            self._room.set()


def carried_bytes(told: ItemsEnded | ItemsDone) -> int:
    """Of values and errors, which are all that can be large."""
    values = sum(len(one.values.data) for one in told.returned)
    return values + sum(len(one.error) for one in told.outcomes)
