"""Limits the results of items that are in memory because the server has not accepted them yet."""

import asyncio

from potluck.model.task import MIB
from potluck.provider.event import ItemsEnded
from potluck.wire.provider import ItemsDone

MOST_BYTES = 64 * MIB


class UnsentResults:
    """The unsent results of one attempt. `room` makes the task wait for the server."""

    def __init__(self) -> None:
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    def add(self, event: ItemsEnded) -> None:
        self._change(carried_bytes(event))

    def remove(self, report: ItemsDone) -> None:
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


def carried_bytes(report: ItemsEnded | ItemsDone) -> int:
    """The size of its values and errors; the rest is small."""
    values = sum(len(items.values.data) for items in report.returned)
    return values + sum(len(outcome.error) for outcome in report.outcomes)
