"""Whose a contested device becomes, as a table."""

from datetime import UTC, datetime, timedelta

import pytest

from potluck.decide.binding import Contest, Verdict, verdict
from potluck.model.ids import AccountId

CLOSES = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE, AFTER = CLOSES - timedelta(seconds=1), CLOSES

CASES = [
    # (the incumbent answered, the contender did, when, what becomes of it)
    (False, False, BEFORE, Verdict.OPEN),
    (False, True, BEFORE, Verdict.OPEN),  # the incumbent still has time
    (True, False, BEFORE, Verdict.KEPT),  # an answer is an answer; nobody has to wait
    (True, True, BEFORE, Verdict.KEPT),
    (True, False, AFTER, Verdict.KEPT),
    (True, True, AFTER, Verdict.KEPT),
    (False, True, AFTER, Verdict.MOVED),
    (False, False, AFTER, Verdict.KEPT),  # silence wins nothing
]


@pytest.mark.parametrize(("incumbent", "contender", "now", "expected"), CASES)
def test_the_verdict(incumbent: bool, contender: bool, now: datetime, expected: Verdict) -> None:
    contest = Contest(
        "GPU-1", AccountId("a"), AccountId("b"), bytes(32), CLOSES, incumbent, contender
    )
    assert verdict(contest, now) is expected
