"""The duty that keeps the leases alive: small calls of their own, never behind anything else."""

import asyncio
import random
from collections.abc import Callable

from potluck.provider.event import Event, LeaseLost
from potluck.provider.link import Link, ListHeld
from potluck.provider.meter import measure_node
from potluck.wire.provider import Heartbeat, HeartbeatAnswer

_JITTER = 0.2


async def beat_forever(
    link: Link,
    held: ListHeld,
    tell: Callable[[list[Event]], bool],
    hear: Callable[[HeartbeatAnswer], None],
    interval_seconds: float,
) -> None:
    """Beats every interval, a fifth more or less, so that a fleet does not beat as one."""

    def beat() -> Heartbeat:
        node = measure_node()
        return Heartbeat(held(), node.load_percent, node.memory_used_bytes)

    while True:
        await asyncio.sleep(interval_seconds * random.uniform(1 - _JITTER, 1 + _JITTER))
        answer = await link.heartbeat(beat)
        tell([LeaseLost(attempt_id) for attempt_id in answer.stop])
        hear(answer)
