"""Gathers the outcomes of items, so that they are recorded and reported in batches."""

import asyncio
from collections.abc import Callable

from potluck.model.ids import AttemptId
from potluck.provider.event import ItemsEnded
from potluck.wire.provider import ItemOutcome

MOST_OUTCOMES = 100
_MOST_ERROR_BYTES = 2**18


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
        self._error_bytes += len(outcome.error)
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
