"""Gathers the outcomes of items, so that they are recorded and reported in batches, and limits the
results that are in memory because the server has not accepted them yet.
"""

import asyncio
from collections.abc import Callable

from potluck.model.ids import AttemptId
from potluck.model.task import MIB
from potluck.provider.event import ItemsEnded
from potluck.wire.provider import ItemOutcome, ItemsDone

MOST_OUTCOMES = 100
_MOST_ERROR_BYTES = 2**18
MOST_BYTES = 64 * MIB


class Outcomes:
    """Passes on a batch when it is large, or when its first outcome has waited long enough."""

    def __init__(
        self, attempt_id: AttemptId, tell: Callable[[ItemsEnded], None], longest_seconds: float
    ) -> None:
        self._attempt_id = attempt_id
        self._tell = tell
        self._longest_seconds = longest_seconds
        self._gathered: list[ItemOutcome] = []
        self._error_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, outcome: ItemOutcome) -> None:
        self._gathered.append(outcome)
        self._error_bytes += len(outcome.error) + len(outcome.last_lines)
        if len(self._gathered) >= MOST_OUTCOMES or self._error_bytes > _MOST_ERROR_BYTES:
            self.flush()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._longest_seconds, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gathered, self._gathered, self._error_bytes = self._gathered, [], 0
        if gathered:
            self._tell(ItemsEnded(self._attempt_id, tuple(gathered)))


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
