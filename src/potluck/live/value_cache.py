"""Values that one instance keeps for moments, and drops as soon as one of their topics is woken.

The truth is in PostgreSQL, and what changes it wakes the topic after the commit: on the same
instance nobody sees an older value from then on, on others once the wake-up has arrived. If it is
lost, a value is dropped when its time is over. Nothing of it is in Redis.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from potluck.live.interface import Listener

V = TypeVar("V")


class ValueCache(Generic[V]):
    """Without a listener nothing is kept: nobody would say when it changes."""

    def __init__(
        self,
        listener: Listener | None = None,
        seconds: float = 0.0,
        most: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener = listener
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._values: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()
        self._drops = 0

    async def load(self, key: Hashable, read: Callable[[], Awaitable[V]]) -> V:
        """The kept value, or what `read` finds; None is not kept."""
        self._drop_if_woken()
        kept = self._values.get(key)
        now = self._clock()
        if kept is not None and now - kept[0] < self._seconds:
            return kept[1]
        drops = self._drops
        value = await read()
        self._drop_if_woken()
        # A wake-up meanwhile may be for a change that the read did not see.
        if value is not None and drops == self._drops:
            self._keep(key, now, value)
        return value

    def _keep(self, key: Hashable, now: float, value: V) -> None:
        if self._listener is None or not self._seconds:
            return
        self._values[key] = (now, value)
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)

    def _drop_if_woken(self) -> None:
        if self._listener is not None and self._listener.take_wake():
            self._values.clear()
            self._drops += 1
