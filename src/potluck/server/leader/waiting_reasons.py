"""Why tasks wait, kept in `live` for whoever asks, on any instance.

Tasks of one account that ask for the same, and have failed in the same places, wait for the same
reason. It is kept once, under a name that follows from the task itself, however many they are; and
who follows one of them is woken only when it changes. How long they are expected to take is not in
the name, since only the leader knows: of lines that differ by that alone, the last reason is told.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from potluck.decide.explain.reason_updates import Waiting
from potluck.decide.queue.task_groups import LineKey
from potluck.decide.scheduler import Scheduler
from potluck.server import topics
from potluck.server.services import Services
from potluck.wire import codec

# Long enough to outlive a quiet spell between rounds, short enough not to lie for long.
_REASON_SECONDS = 120.0
# How long a round may spend with putting again what has not changed.
_REFRESH_SECONDS = 0.05


class _Published(NamedTuple):
    encoded: bytes
    at: float


class WaitingReasons:
    def __init__(self, services: Services, scheduler: Scheduler) -> None:
        self._services = services
        self._scheduler = scheduler
        self._clock = asyncio.get_running_loop()
        self._published: OrderedDict[LineKey, _Published] = OrderedDict()  # the oldest first
        self._of_name: dict[str, dict[LineKey, None]] = {}

    async def publish(
        self, changed: Mapping[LineKey, Waiting], emptied: Iterable[LineKey] = ()
    ) -> None:
        """What is new; of an emptied line nothing is told any more, to whoever comes into it."""
        for key in emptied:
            await self._drop(key)
        for key, waiting in changed.items():
            encoded = codec.encode_json(waiting.reason)
            known = self._published.get(key)
            if known is None or known.encoded != encoded:
                await self._put(key, encoded)
                await self._services.live.wake(
                    topics.line(_name(key._replace(failed_on=frozenset())))
                )
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
                await self._drop(key)

    async def _put(self, key: LineKey, encoded: bytes) -> None:
        name = _name(key)
        await self._services.live.put(topics.waiting(name), encoded, _REASON_SECONDS)
        self._published[key] = _Published(encoded, self._clock.time())
        self._published.move_to_end(key)
        self._of_name.setdefault(name, {})[key] = None

    async def _drop(self, key: LineKey) -> None:
        if self._published.pop(key, None) is None:
            return
        name = _name(key)
        others = self._of_name[name]
        del others[key]
        if others:
            other = next(iter(others))
            await self._put(other, self._published[other].encoded)
        else:
            del self._of_name[name]
            await self._services.live.drop(topics.waiting(name))


def _name(key: LineKey) -> str:
    return topics.line_name(
        *(key.account_id, key.priority, key.requirements, key.limits, key.failed_on, key.array),
        key.kind,
    )
