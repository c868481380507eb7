"""The duty that polls for work: one long poll after another."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct

from potluck.provider.event import Event, Granted, ItemsCancelled, ItemsGranted, LeaseLost, Released
from potluck.provider.server.heartbeat import HeartbeatContent, Pulse
from potluck.provider.server.server_client import ListStreams, NodeServerClient
from potluck.wire.provider import Heartbeat, LeasesGranted


class Rhythm(Struct, frozen=True):
    """The timing of the polls."""

    wait_seconds: float  # the longest that the server may hold one
    rest_seconds: float  # after a grant, unless a report is answered sooner
    answered: Callable[[], Awaitable[object]]  # returns when the server has answered a report


async def acquire_forever(
    link: NodeServerClient,
    content: HeartbeatContent,
    tell: Callable[[list[Event]], bool],
    pulse: Pulse,
    rhythm: Rhythm,
    streams: ListStreams = lambda: (),
) -> None:
    """Passes grants and stops to `tell`, which returns whether they had an effect.

    After a grant it pauses briefly: a short task ends meanwhile, and its report does not queue
    behind a poll. After a report there is room again, so it polls immediately.

    The owner's requests come with heartbeats: if there are any, the next heartbeat is sent now.
    While the node has no leases, its polls carry its heartbeats, so that it sends one request
    instead of two.
    """

    def beat() -> Heartbeat | None:
        is_carried = pulse.is_due_in_poll() and content.is_idle()
        pulse.polled(is_carried)
        return content.read() if is_carried else None

    early = 0
    wait_seconds = rhythm.wait_seconds
    while True:
        asked_at = time.monotonic()
        answer = await link.acquire(content.held, wait_seconds, streams, beat)
        is_beat_due = pulse.poll_answered(answer.took_beat)
        is_news = tell(_events(answer))
        if answer.has_wishes or is_beat_due:
            content.news.change()
        if is_news and answer.grants:
            await _rest(rhythm)
        # A server that answers immediately with nothing new must not cause a busy loop.
        is_early = not is_news and time.monotonic() - asked_at < wait_seconds / 2
        early = early + 1 if is_early else 0
        if is_early:
            await link.pause(early)


async def _rest(rhythm: Rhythm) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(rhythm.rest_seconds):
            await rhythm.answered()


def _events(answer: LeasesGranted) -> list[Event]:
    return [
        *(LeaseLost(attempt_id) for attempt_id in answer.stop),
        *(Granted(grant) for grant in answer.grants),
        *(ItemsGranted(items) for items in answer.items),
        *(ItemsCancelled(items) for items in answer.cancelled),
        *(Released(attempt_id) for attempt_id in answer.released),
    ]
