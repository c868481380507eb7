"""Grace is given for what is not the nodes' silence, once, and never without an end."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.decide.lease_grace import (
    LONGEST,
    Grace,
    HeartbeatGaps,
    HeartbeatTimes,
    for_gap,
    for_mass_loss,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TIMES = HeartbeatTimes(
    heartbeat=timedelta(seconds=20), lease=timedelta(seconds=90), silent_after=timedelta(seconds=60)
)
# A lively node beats within a fifth of the interval; a try that failed is made again within 15 s.
LATEST_BEAT_SECONDS, RETRY_SECONDS = 24.0, 15.0


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def gap(last: float, after: float | None = None, forgiven: float | None = None) -> Grace | None:
    """The last heartbeat, the first one afterwards and the forgiven one, so many seconds ago."""
    silence = HeartbeatGaps(
        now=NOW,
        forgiven_beat_at=None if forgiven is None else ago(forgiven),
        led_until=ago(last - 1),
        last_beat_at=ago(last),
        next_beat_at=None if after is None else ago(after),
    )
    return for_gap(silence, TIMES)


GAPS = [
    # (what happened, the grace in seconds)
    ("a leader was replaced in a pool that beats", gap(5), None),
    ("a leader was replaced in a pool of one node", gap(24), None),
    ("the server was away for a minute", gap(60), 60),
    ("the first node is back before the leader is", gap(100, after=40), 60),
    ("the server was away for an hour", gap(3600), 600),
    ("the same gap, by the next leader", gap(65, forgiven=65), None),
    ("a gap after the one that was forgiven", gap(65, forgiven=900), 65),
]


@pytest.mark.parametrize(
    ("grace", "seconds"), [row[1:] for row in GAPS], ids=[row[0] for row in GAPS]
)
def test_a_gap_is_forgiven_for_as_long_as_it_was(
    grace: Grace | None, seconds: float | None
) -> None:
    grace_seconds = None if grace is None else grace.lasting / timedelta(seconds=1)
    assert grace_seconds == seconds


def test_nodes_that_are_all_back_before_the_leader_have_a_part_in_the_gap() -> None:
    grace = for_gap(HeartbeatGaps(NOW, None, ago(100), None, ago(40)), TIMES)
    assert grace is not None
    assert grace.lasting == timedelta(seconds=60)
    assert grace.seen_until is None


def test_the_first_leader_of_all_finds_no_gap() -> None:
    assert for_gap(HeartbeatGaps(NOW, None, None, None, ago(1)), TIMES) is None


def test_a_pool_without_nodes_has_no_gap() -> None:
    assert for_gap(HeartbeatGaps(NOW, None, NOW, None, None), TIMES) is None


@given(
    gap_seconds=st.floats(0, 600),
    beats=st.lists(st.floats(0, LATEST_BEAT_SECONDS), min_size=1, max_size=20),
)
def test_no_lease_that_was_alive_is_lost_by_a_gap(gap_seconds: float, beats: list[float]) -> None:
    """Whoever beat regularly until the server went away has time to find it again."""
    down_at = ago(gap_seconds)
    beat_times = [down_at - timedelta(seconds=seconds_ago) for seconds_ago in beats]
    last = max(beat_times)
    grace = for_gap(HeartbeatGaps(NOW, None, down_at, last, None), TIMES)
    for beat_at in beat_times:
        expires_at = beat_at + TIMES.lease
        if grace is not None and grace.since < beat_at:
            expires_at = max(expires_at, NOW + grace.lasting)
        assert expires_at > NOW + timedelta(seconds=RETRY_SECONDS)


@given(gaps=st.lists(st.tuples(st.floats(0, 3600), st.booleans()), min_size=1, max_size=30))
def test_flapping_leaders_do_not_extend_for_ever(gaps: list[tuple[float, bool]]) -> None:
    """A node that died holds its lease for one grace at most, however often leaders change.

    Between two leaders another node beats, or nobody does.
    """
    now = NOW
    died_at = last = expires_from = NOW
    expires_at = expires_from + TIMES.lease
    forgiven: datetime | None = None
    for seconds, another_beats in gaps:
        now += timedelta(seconds=seconds)
        grace = for_gap(HeartbeatGaps(now, forgiven, last, last, None), TIMES)
        if grace is not None:
            forgiven = grace.beat_at
            if grace.since < died_at:
                expires_at = max(expires_at, now + grace.lasting)
        if another_beats:
            last = now
        assert grace is None or grace.lasting <= LONGEST
        if last - died_at > TIMES.lease:
            before = expires_at
            later = for_gap(HeartbeatGaps(now + LONGEST, forgiven, last, last, None), TIMES)
            assert later is None or not later.since < died_at
            assert expires_at == before


def mass(recent: int, quiet: int, newest: float = 60.0) -> Grace | None:
    silence = HeartbeatGaps(
        NOW, None, None, ago(1), None, recent, quiet, ago(newest) if quiet else None
    )
    return for_mass_loss(silence, TIMES)


@pytest.mark.parametrize(
    ("recent", "quiet", "is_forgiven"),
    [
        (9, 3, True),  # a third
        (10, 3, False),  # less
        (2, 2, False),  # too few to say
        (3, 3, True),
        (300, 100, True),
        (300, 99, False),
        (5, 0, False),
    ],
)
def test_a_third_of_the_nodes_at_once_is_forgiven(
    recent: int, quiet: int, is_forgiven: bool
) -> None:
    grace = mass(recent, quiet)
    assert (grace is not None) == is_forgiven
    assert grace is None or grace.lasting == timedelta(seconds=60)


@given(recent=st.integers(0, 10_000), quiet=st.integers(0, 10_000), newest=st.floats(60, 10**6))
def test_grace_for_many_is_never_longer_than_ten_minutes(
    recent: int, quiet: int, newest: float
) -> None:
    grace = mass(max(recent, quiet), quiet, newest)
    assert grace is None or timedelta(0) < grace.lasting <= LONGEST


def test_a_mass_loss_is_noticed_before_the_first_lease_runs_out() -> None:
    short = HeartbeatTimes(timedelta(seconds=20), timedelta(seconds=40), timedelta(seconds=60))
    assert TIMES.quiet_after == timedelta(seconds=60)
    assert short.quiet_after < short.lease
