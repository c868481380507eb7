"""Why tasks wait, kept in `live` for whoever asks, on any instance.

Tasks of one account that ask for the same, and have failed in the same places, wait for the same
reason. It is kept once, under a name that follows from the task itself, however many they are; and
who follows one of them is woken only when it changes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from potluck.decide.explain.told import Waiting
from potluck.decide.plan import Scheduler
from potluck.decide.queue.lines import LineKey
from potluck.server import topics
from potluck.server.parts import Parts
from potluck.wire import codec

# Long enough to outlive a quiet spell between rounds, short enough not to lie for long.
_REASON_SECONDS = 120.0
# How long a round may spend with putting again what has not changed.
_REFRESH_SECONDS = 0.05


class _Published(NamedTuple):
    encoded: bytes
    at: float


class Reasons:
    def __init__(self, parts: Parts, scheduler: Scheduler) -> None:
        self._parts = parts
        self._scheduler = scheduler
        self._clock = asyncio.get_running_loop()
        self._published: OrderedDict[LineKey, _Published] = OrderedDict()  # the oldest first

    async def publish(self, changed: Mapping[LineKey, Waiting]) -> None:
        for key, waiting in changed.items():
            encoded = codec.encode_json(waiting.reason)
            known = self._published.get(key)
            if known is None or known.encoded != encoded:
                await self._put(key, encoded)
                await self._parts.live.wake(topics.line(_name(key._replace(failed_on=frozenset()))))
        await self._refresh()

    @property
    def is_behind(self) -> bool:
        """Whether there are some to put again before they expire."""
        oldest = next(iter(self._published.values()), None)
        return oldest is not None and self._clock.time() - oldest.at >= _REASON_SECONDS / 2

    async def _refresh(self) -> None:
        """Some, before they expire; without those in which nobody waits any more."""
        until = self._clock.time() + _REFRESH_SECONDS
        while self.is_behind and self._clock.time() < until:
            key, known = next(iter(self._published.items()))
            if self._scheduler.has_line(key):
                await self._put(key, known.encoded)
            else:
                del self._published[key]

    async def _put(self, key: LineKey, encoded: bytes) -> None:
        await self._parts.live.put(topics.waiting(_name(key)), encoded, _REASON_SECONDS)
        self._published[key] = _Published(encoded, self._clock.time())
        self._published.move_to_end(key)


def _name(key: LineKey) -> str:
    return topics.line_name(
        key.account_id, key.priority, key.requirements, key.limits, key.failed_on
    )
