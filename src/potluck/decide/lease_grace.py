"""Grace for leases when many nodes fall silent at once, because the server is probably at fault.

Two kinds of silence are forgiven, each once. A gap: no heartbeat was recorded for longer than a
live node is ever silent, so the server was down. A mass loss: a third of the nodes fell silent
together, so the fault is probably between them and the server. Forgiving extends the leases of the
nodes that were alive when the silence began by the length of the silence, at most ten minutes.

Grace cannot extend leases for ever: silence that began by `forgiven_beat_at` is not forgiven again,
and a node that was silent for a whole lease before a gap gets none.
"""

from datetime import datetime, timedelta

from msgspec import Struct

LONGEST = timedelta(minutes=10)
FEWEST_NODES = 3
# A mass loss is one node in this many.
_MASS = 3
# In heartbeats: they come up to a fifth early or late, and take time to arrive.
LATEST_BEAT = 1.5
# In heartbeats: nodes that fall silent within this time do so together.
_TOGETHER_BEATS = 2.0
# In leases: a mass loss is noticed before the first lease expires.
_OF_A_LEASE = 0.75


class HeartbeatTimes(Struct, frozen=True):
    """The settings that define silence."""

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
    """A summary of the last heartbeats of all nodes."""

    now: datetime
    forgiven_beat_at: datetime | None  # silence that began by then is already forgiven
    led_until: datetime | None  # end of the previous leader's term, if there was one
    last_beat_at: datetime | None  # of the nodes that are silent since then
    next_beat_at: datetime | None  # the first one after that
    recent: int = 0  # nodes with recent heartbeats
    quiet: int = 0  # those that have fallen silent and are not forgiven
    newest_quiet_at: datetime | None = None  # the last heartbeat of these


class Grace(Struct, frozen=True):
    """For nodes with a last heartbeat after `since`, and by `seen_until` if it is set."""

    since: datetime
    seen_until: datetime | None
    beat_at: datetime  # silence that began by then is forgiven
    lasting: timedelta


def for_gap(silence: HeartbeatGaps, times: HeartbeatTimes) -> Grace | None:
    """Decided once, at the start of a term.

    Nodes that return before the leader does get grace too: their leases are not renewed yet. If all
    of them have returned, the end of the previous term stands in for the last heartbeat.
    """
    last = silence.last_beat_at
    if last is None and silence.next_beat_at is not None:
        last = silence.led_until
    if last is None or _is_forgiven(last, silence):
        return None
    gap = (silence.next_beat_at or silence.now) - last
    if gap <= times.heartbeat * LATEST_BEAT:
        return None
    return Grace(last - times.lease, None, last, min(gap, LONGEST))


def for_mass_loss(silence: HeartbeatGaps, times: HeartbeatTimes) -> Grace | None:
    """Decided repeatedly during a term."""
    newest = silence.newest_quiet_at
    if newest is None or silence.quiet < max(FEWEST_NODES, silence.recent / _MASS):
        return None
    since = silence.now - times.quiet_after - times.together
    return Grace(since, newest, newest, min(silence.now - newest, LONGEST))


def _is_forgiven(beat_at: datetime, silence: HeartbeatGaps) -> bool:
    return silence.forgiven_beat_at is not None and beat_at <= silence.forgiven_beat_at
