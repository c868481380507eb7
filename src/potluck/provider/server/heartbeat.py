"""The duty that keeps the leases alive: small calls that never wait for other traffic."""

import asyncio
import math
import random
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from potluck.provider.attempt.usage_meter import measure_node
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.event import CreditEnded, Event, LeaseLost, SilenceLasted
from potluck.provider.server.server_client import ListHeld, NodeServerClient
from potluck.wire.device_status import DeviceStatus
from potluck.wire.provider import Heartbeat, HeartbeatAnswer
from potluck.wire.signing.receipt import NodeSignedReceipt

_JITTER = 0.2
# Of the longest pause between heartbeats.
_SHARE_BETWEEN_POLLS = 0.25
# The bounds of the interval at which the server's silence is checked.
_SHORTEST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.05, 1.0
# Also counts while a laptop sleeps, if the system has such a clock; not on Windows.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class Pulse:
    """When the last heartbeat that the server answered was sent, and when the next is overdue.

    A poll of an idle node carries its heartbeat. Until the server says otherwise it is taken to be
    recorded, so that no second connection is made for heartbeats.
    """

    def __init__(self) -> None:
        self._sent_at = self._answered_at = _now()
        self._longest_pause_seconds = 0.0
        self._carried_at = -math.inf  # the last poll with a heartbeat was sent
        self._is_carried = False  # the last poll carried one
        self._are_taken = True

    def start(self, interval_seconds: float) -> None:
        """Sets the interval of the heartbeats; with jitter, a pause may be a little longer."""
        self._longest_pause_seconds = interval_seconds * (1 + _JITTER)

    def sent(self) -> None:
        self._sent_at = _now()

    def answered(self) -> None:
        self._answered_at = self._sent_at

    def polled(self, is_carried: bool) -> None:
        """A poll is sent, with or without a heartbeat."""
        self._is_carried = is_carried
        if is_carried:
            self._carried_at = _now()

    def poll_answered(self, took_beat: bool) -> bool:
        """Whether the server has ceased to record the heartbeats in polls."""
        if not self._is_carried:
            return False
        were_taken, self._are_taken = self._are_taken, took_beat
        if took_beat:
            self._answered_at = _now()
        return were_taken and not took_beat

    def is_due_in_poll(self) -> bool:
        """Whether the next poll should carry a heartbeat; short tasks make many polls."""
        return _now() - self._carried_at > self._longest_pause_seconds * _SHARE_BETWEEN_POLLS

    def is_beating_in_polls(self) -> bool:
        """Whether a poll carried a heartbeat recently, so that none is due."""
        is_recent = _now() - self._carried_at < self._longest_pause_seconds
        return self._are_taken and is_recent

    def seconds_since_answer(self) -> float:
        return _now() - self._answered_at

    def silence_seconds(self) -> float:
        """Since the next heartbeat should have been answered, not since the last one was."""
        return max(0.0, self.seconds_since_answer() - self._longest_pause_seconds)


class HeartbeatContent(Struct, frozen=True):
    """The content of heartbeats, read for each one."""

    held: ListHeld
    statuses: Callable[[], tuple[DeviceStatus, ...]]
    wish: Callable[[], int]  # the number of the last remote request that was carried out
    news: ChangeCounter  # changes that cause an early heartbeat
    receipts: Callable[[], tuple[NodeSignedReceipt, ...]] = tuple  # those to be countersigned
    volumes: Callable[[], tuple[str, ...]] = tuple  # the keys of those that this node holds

    def read(self) -> Heartbeat:
        node = measure_node()
        return Heartbeat(
            self.held(),
            node.load_percent,
            node.memory_used_bytes,
            self.statuses(),
            self.wish(),
            self.receipts(),
            self.volumes(),
        )

    def is_idle(self) -> bool:
        """Whether a poll can carry the heartbeat: there is no lease to renew, and no receipt."""
        return not (self.held() or self.receipts())


async def beat_forever(
    link: NodeServerClient,
    tidings: HeartbeatContent,
    tell: Callable[[list[Event]], bool],
    hear: Callable[[HeartbeatAnswer], None],
    interval_seconds: float,
    pulse: Pulse,
) -> None:
    """Beats at the interval with 20 % jitter, so that a fleet spreads, and at once after news.

    While the node has no leases and its polls carry heartbeats, it sends none of its own.
    """
    changes = 0
    pulse.start(interval_seconds)

    def beat() -> Heartbeat:
        nonlocal changes
        changes = tidings.news.changes
        pulse.sent()
        return tidings.read()

    while True:
        is_news = False
        with suppress(TimeoutError):
            async with asyncio.timeout(interval_seconds * random.uniform(1 - _JITTER, 1 + _JITTER)):
                await tidings.news.until_stale()
                is_news = True
        if not is_news and pulse.is_beating_in_polls() and tidings.is_idle():
            continue
        answer = await link.heartbeat(beat)
        pulse.answered()
        tidings.news.acknowledge(changes)
        grace_seconds = answer.checkpoint_seconds
        tell([LeaseLost(attempt_id) for attempt_id in answer.stop])
        tell([CreditEnded(attempt_id, grace_seconds) for attempt_id in answer.unfunded])
        hear(answer)


async def watch_silence(
    pulse: Pulse, shortest_seconds: Callable[[], float | None], tell: Callable[[list[Event]], bool]
) -> None:
    """Reports when the silence has reached the shortest limit of the held attempts."""
    while True:
        limit_seconds = shortest_seconds()
        rest_seconds = _LONGEST_LOOK_SECONDS
        if limit_seconds is not None:
            silence_seconds = pulse.silence_seconds()
            rest_seconds = limit_seconds - silence_seconds
            if rest_seconds <= 0:
                tell([SilenceLasted(silence_seconds)])
        await asyncio.sleep(min(max(rest_seconds, _SHORTEST_LOOK_SECONDS), _LONGEST_LOOK_SECONDS))


def _now() -> float:
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
