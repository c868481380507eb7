"""Silence is what is overdue, and not the pause between two heartbeats."""

import pytest

from potluck.provider.server import heartbeat
from potluck.provider.server.heartbeat import Pulse


def test_silence_begins_when_a_heartbeat_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a limit below the interval stops tasks while the server answers each beat."""
    now = 100.0
    monkeypatch.setattr(heartbeat, "_now", lambda: now)
    pulse = Pulse()
    pulse.start(20.0)
    pulse.sent()
    pulse.answered()
    now = 124.0  # the longest pause, with its jitter
    assert (pulse.seconds_since_answer(), pulse.silence_seconds()) == (24.0, 0.0)
    now = 184.0
    assert pulse.silence_seconds() == pytest.approx(60.0)
    pulse.sent()
    assert pulse.silence_seconds() == pytest.approx(60.0), "sent is not answered"
    pulse.answered()
    assert pulse.silence_seconds() == 0.0
