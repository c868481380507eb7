"""The items of a call stream on their way from the server to the run of an attempt."""

import time
from collections import deque
from collections.abc import Callable, Sequence

from potluck.model.task import ItemRange
from potluck.wire.provider import GrantedItems


class ItemFeed:
    """Filled as items are granted, perhaps before the run starts. Once it is released, no more
    items come."""

    def __init__(self) -> None:
        self._items: deque[GrantedItems] = deque()
        self._cancelled: list[ItemRange] = []
        self._released_at: float | None = None
        self._changed: Callable[[], None] | None = None

    def add(self, items: GrantedItems) -> None:
        self._items.append(items)
        self._notify()

    def cancel(self, items: Sequence[ItemRange]) -> None:
        self._cancelled += items
        self._notify()

    def release(self) -> None:
        self._released_at = self._released_at or time.monotonic()
        self._notify()

    def listen(self, changed: Callable[[], None]) -> None:
        """Calls `changed` now and at each change."""
        self._changed = changed
        changed()

    def take(self) -> list[GrantedItems]:
        taken = list(self._items)
        self._items.clear()
        return taken

    def take_cancelled(self) -> list[ItemRange]:
        taken, self._cancelled = self._cancelled, []
        return taken

    @property
    def is_released(self) -> bool:
        return self._released_at is not None

    @property
    def released_seconds(self) -> float:
        """For how long it has been released; 0 if it has not."""
        return 0.0 if self._released_at is None else time.monotonic() - self._released_at

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed()
