"""Publishes why tasks wait, in `live`, for all instances.

Tasks of one account with the same requirements and the same failed nodes wait for the same reason.
It is stored once, under a name derived from the task, and followers are woken only when it changes.
Expected durations are not part of the name, since only the leader knows them: of groups that differ
in that alone, the latest reason is shown.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from potluck.decide.explain.reason_updates import WaitingUpdate
from potluck.decide.queue.task_groups import GroupKey
from potluck.decide.scheduler import Scheduler
from potluck.server import topics
from potluck.server.services import Services
from potluck.wire import codec

# Outlives a quiet period between rounds, but not for long.
_REASON_SECONDS = 120.0
# Time per round for refreshing unchanged reasons.
_REFRESH_SECONDS = 0.05


class _Published(NamedTuple):
    encoded: bytes
    at: float


class WaitingReasons:
    def __init__(self, services: Services, scheduler: Scheduler) -> None:
        self._services = services
        self._scheduler = scheduler
        self._clock = asyncio.get_running_loop()
        self._published: OrderedDict[GroupKey, _Published] = OrderedDict()  # oldest first
        self._of_name: dict[str, dict[GroupKey, None]] = {}

    async def publish(
        self, changed: Mapping[GroupKey, WaitingUpdate], emptied: Iterable[GroupKey] = ()
    ) -> None:
        """Publishes changed reasons, and drops those of emptied groups."""
        for key in emptied:
            await self._drop(key)
        for key, waiting in changed.items():
            encoded = codec.encode_json(waiting.reason)
            published = self._published.get(key)
            if published is None or published.encoded != encoded:
                await self._put(key, encoded)
                await self._services.live.wake(
                    topics.line(_name(key._replace(failed_on=frozenset())))
                )
        await self._refresh()

    @property
    def is_behind(self) -> bool:
        """Whether some reasons must be refreshed before they expire."""
        oldest = next(iter(self._published.values()), None)
        return oldest is not None and self._clock.time() - oldest.at >= _REASON_SECONDS / 2

    async def _refresh(self) -> None:
        """Refreshes the oldest reasons; drops those of groups without waiting tasks."""
        until = self._clock.time() + _REFRESH_SECONDS
        while self.is_behind and self._clock.time() < until:
            key, published = next(iter(self._published.items()))
            if self._scheduler.has_line(key):
                await self._put(key, published.encoded)
            else:
                await self._drop(key)

    async def _put(self, key: GroupKey, encoded: bytes) -> None:
        name = _name(key)
        await self._services.live.put(topics.waiting(name), encoded, _REASON_SECONDS)
        self._published[key] = _Published(encoded, self._clock.time())
        self._published.move_to_end(key)
        self._of_name.setdefault(name, {})[key] = None

    async def _drop(self, key: GroupKey) -> None:
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


def _name(key: GroupKey) -> str:
    return topics.line_name(
        *(key.account_id, key.priority, key.requirements, key.limits, key.failed_on, key.array),
        key.kind,
    )
