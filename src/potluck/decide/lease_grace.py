"""Grace: before it believes in many deaths, the server doubts itself.

Two silences are forgiven, each once. A gap: no heartbeat at all was recorded for longer than a
lively node is ever silent, so it was the server that was away. A mass loss: a third of the nodes
fell silent at once, so it is probably something between them and the server. Forgiven means that
the leases of the nodes which were alive when it began hold on for as long as the silence was, at
most ten minutes.

It can not be repeated into leases that never end: silence that began by `forgiven_beat_at` is
forgiven already, and a node that was not heard for a whole lease before a gap has no part in it.
"""

from datetime import datetime, timedelta

from msgspec import Struct

LONGEST = timedelta(minutes=10)
FEWEST_NODES = 3
# One in three.
_MASS = 3
# Beats come a fifth early or late, and travel for a moment.
_LATEST_BEAT = 1.5
# Nodes that fall silent together do so within two rounds of beats.
_TOGETHER_BEATS = 2.0
# Noticed before the first of their leases runs out.
_OF_A_LEASE = 0.75


class Times(Struct, frozen=True):
    """The settings that silence is measured by."""

    heartbeat: timedelta
    lease: timedelta
    silent_after: timedelta

    @property
    def quiet_after(self) -> timedelta:
        return min(self.silent_after, self.lease * _OF_A_LEASE)

    @property
    def together(self) -> timedelta:
        return self.heartbeat * _TOGETHER_BEATS


class HeartbeatGaps(Struct, frozen=True):
    """What the last heartbeats of all nodes tell at one moment."""

    now: datetime
    forgiven_beat_at: datetime | None  # silence that began by then has been forgiven
    led_until: datetime | None  # when the term before this one ended, if there was one
    last_beat_at: datetime | None  # of a node that was not heard since then
    next_beat_at: datetime | None  # the first one after that
    recent: int = 0  # nodes that were heard until lately
    quiet: int = 0  # those of them that have fallen silent, and were not forgiven for it
    newest_quiet_at: datetime | None = None  # the last heartbeat of these


class Grace(Struct, frozen=True):
    """For nodes that were last heard after `since`, and not after `heard_until` if that is said."""

    since: datetime
    heard_until: datetime | None
    beat_at: datetime  # silence that began by then is forgiven herewith
    lasting: timedelta


def for_gap(silence: HeartbeatGaps, times: Times) -> Grace | None:
    """Decided once, when a term begins.

    Nodes that are back before the leader is have a part in it: they were heard, but what they hold
    was not yet renewed. If all of them are, nothing tells when the last beat before the gap was.
    """
    last = silence.last_beat_at
    if last is None and silence.next_beat_at is not None:
        last = silence.led_until
    if last is None or _is_forgiven(last, silence):
        return None
    gap = (silence.next_beat_at or silence.now) - last
    if gap <= times.heartbeat * _LATEST_BEAT:
        return None
    return Grace(last - times.lease, None, last, min(gap, LONGEST))


def for_mass_loss(silence: HeartbeatGaps, times: Times) -> Grace | None:
    """Decided again and again while a term runs."""
    newest = silence.newest_quiet_at
    if newest is None or silence.quiet < max(FEWEST_NODES, silence.recent / _MASS):
        return None
    since = silence.now - times.quiet_after - times.together
    return Grace(since, newest, newest, min(silence.now - newest, LONGEST))


def _is_forgiven(beat_at: datetime, silence: HeartbeatGaps) -> bool:
    return silence.forgiven_beat_at is not None and beat_at <= silence.forgiven_beat_at
