"""Values that one instance keeps for moments, and drops as soon as one of their topics is woken.

The truth is in PostgreSQL, and what changes it wakes the topic after the commit: on the same
instance no reader sees an older value from then on, on others once the wake-up has arrived. If it
is lost, a value is dropped when its time is over. Nothing of it is in Redis.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

from potluck.live.interface import Listener

V = TypeVar("V")


class _KeptValue(Generic[V]):
    __slots__ = ("read_at", "used_at", "value")

    def __init__(self, value: V, read_at: float) -> None:
        self.value = value
        self.read_at = self.used_at = read_at


class ValueCache(Generic[V]):
    """Without a listener nothing is kept: no signal would say when it changes."""

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
        self._values: OrderedDict[Hashable, _KeptValue[V]] = OrderedDict()
        self._drops = 0

    async def load(self, key: Hashable, read: Callable[[], Awaitable[V]]) -> V:
        """The kept value, or what `read` finds; None is not kept."""
        self._drop_if_woken()
        entry = self._values.get(key)
        now = self._clock()
        if entry is not None and now - entry.read_at < self._seconds:
            entry.used_at = now
            return entry.value
        drops = self._drops
        value = await read()
        self._drop_if_woken()
        # A wake-up meanwhile may be for a change that the read did not see.
        if value is not None and drops == self._drops:
            self._keep(key, now, value)
        return value

    def __len__(self) -> int:
        return len(self._values)

    async def renew(
        self,
        unused_seconds: float,
        find_changed: Callable[[Mapping[Hashable, V]], Awaitable[Collection[Hashable]]],
    ) -> None:
        """Keeps all values as if they had just been read, but those that `find_changed` names.

        Values that have not been used for `unused_seconds` are dropped.
        """
        self._drop_if_woken()
        drops, now = self._drops, self._clock()
        for key in [k for k, entry in self._values.items() if now - entry.used_at > unused_seconds]:
            del self._values[key]
        values = dict(self._values)
        changed = await find_changed({key: entry.value for key, entry in values.items()})
        self._drop_if_woken()
        # A wake-up meanwhile may be for a change that the read did not see.
        if drops != self._drops:
            return
        for key, entry in values.items():
            if key not in changed:
                entry.read_at = max(entry.read_at, now)
            elif self._values.get(key) is entry:
                del self._values[key]

    def _keep(self, key: Hashable, now: float, value: V) -> None:
        if self._listener is None or not self._seconds:
            return
        self._values[key] = _KeptValue(value, now)
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)

    def _drop_if_woken(self) -> None:
        if self._listener is not None and self._listener.take_wake():
            self._values.clear()
            self._drops += 1
