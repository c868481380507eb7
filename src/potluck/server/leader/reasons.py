"""Why tasks wait, kept in `live` for whoever asks, on any instance.

Tasks of one account that ask for the same, and have failed in the same places, wait for the same
reason. It is kept once, under a name that follows from the task itself, however many they are; and
who follows one of them is woken only when it changes.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping

from potluck.decide.lines import LineKey
from potluck.decide.plan import Scheduler
from potluck.decide.reasons import Waiting
from potluck.model.ids import AccountId, NodeId
from potluck.model.task import Limits, Requirements
from potluck.server import topics
from potluck.server.parts import Parts
from potluck.wire import codec

# Long enough to outlive a quiet spell between rounds, short enough not to lie for long.
_REASON_SECONDS = 120.0


def line_name(
    account_id: AccountId,
    priority: int,
    requirements: Requirements,
    limits: Limits,
    failed_on: Iterable[NodeId],
) -> str:
    """The same on every instance, from the task's own row."""
    told = codec.encode_json((account_id, priority, requirements, limits, sorted(failed_on)))
    return hashlib.blake2b(told, digest_size=16).hexdigest()


class Reasons:
    def __init__(self, parts: Parts, scheduler: Scheduler) -> None:
        self._parts = parts
        self._scheduler = scheduler
        self._published: dict[LineKey, bytes] = {}
        self._refreshed_at = asyncio.get_running_loop().time()

    async def publish(self, changed: Mapping[LineKey, Waiting]) -> None:
        for key, waiting in changed.items():
            encoded = codec.encode_json(waiting.reason)
            if self._published.get(key) == encoded:
                continue
            self._published[key] = encoded
            await self._parts.live.put(topics.waiting(_name(key)), encoded, _REASON_SECONDS)
            await self._parts.live.wake(topics.line(_name(key._replace(failed_on=frozenset()))))
        await self._refresh()

    async def _refresh(self) -> None:
        """Before they expire, and without those in which nobody waits any more."""
        now = asyncio.get_running_loop().time()
        if now - self._refreshed_at < _REASON_SECONDS / 2:
            return
        self._refreshed_at = now
        for key in [key for key in self._published if not self._scheduler.has_line(key)]:
            del self._published[key]
        for key, encoded in list(self._published.items()):
            await self._parts.live.put(topics.waiting(_name(key)), encoded, _REASON_SECONDS)


def _name(key: LineKey) -> str:
    return line_name(key.account_id, key.priority, key.requirements, key.limits, key.failed_on)
