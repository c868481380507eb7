"""The duty that asks for work: one long poll after another."""

import time
from collections.abc import Callable

from potluck.provider.event import Event, Granted, LeaseLost
from potluck.provider.link import Link, ListHeld
from potluck.provider.told import Told
from potluck.wire.provider import LeasesGranted


async def acquire_forever(
    link: Link,
    held: ListHeld,
    tell: Callable[[list[Event]], bool],
    news: Told,
    wait_seconds: float,
) -> None:
    """Hands every grant and every stop to `tell`, which says whether anything came of it.

    The owner's wishes come with heartbeats: where there are some, the next one must not wait.
    """
    early = 0
    while True:
        asked_at = time.monotonic()
        answer = await link.acquire(held, wait_seconds)
        is_news = tell(_events(answer))
        if answer.has_wishes:
            news.change()
        # A server that answers at once with nothing new must not make us spin.
        is_early = not is_news and time.monotonic() - asked_at < wait_seconds / 2
        early = early + 1 if is_early else 0
        if is_early:
            await link.pause(early)


def _events(answer: LeasesGranted) -> list[Event]:
    stops: list[Event] = [LeaseLost(attempt_id) for attempt_id in answer.stop]
    return stops + [Granted(grant) for grant in answer.grants]
