"""Whose a contested device becomes, as a table."""

from datetime import UTC, datetime, timedelta

import pytest

from potluck.decide.binding import Contest, Side, Verdict, verdict
from potluck.model.ids import AccountId

# The contender's time is over first, then the incumbent's, which may be away.
CONTENDER_BY = datetime(2026, 1, 1, tzinfo=UTC)
INCUMBENT_BY = CONTENDER_BY + timedelta(days=1)
EARLY, BETWEEN, LATE = CONTENDER_BY - timedelta(seconds=1), CONTENDER_BY, INCUMBENT_BY

CASES = [
    # (the incumbent was right, the contender was, when, what becomes of it)
    (None, None, EARLY, Verdict.OPEN),
    (None, True, EARLY, Verdict.OPEN),  # the incumbent still has time
    (True, None, EARLY, Verdict.KEPT),  # an answer is an answer; nobody has to wait
    (True, True, EARLY, Verdict.KEPT),
    (False, None, EARLY, Verdict.OPEN),  # a wrong one loses it only to a right one
    (False, True, EARLY, Verdict.MOVED),
    (False, False, EARLY, Verdict.KEPT),
    (None, False, EARLY, Verdict.KEPT),  # nobody waits for who was wrong
    (None, None, BETWEEN, Verdict.KEPT),  # silence wins nothing
    (False, None, BETWEEN, Verdict.KEPT),
    (None, True, BETWEEN, Verdict.OPEN),
    (False, True, BETWEEN, Verdict.MOVED),
    (None, True, LATE, Verdict.MOVED),
    (True, True, LATE, Verdict.KEPT),
    (True, None, LATE, Verdict.KEPT),
]


@pytest.mark.parametrize(("incumbent", "contender", "now", "expected"), CASES)
def test_the_verdict(
    incumbent: bool | None, contender: bool | None, now: datetime, expected: Verdict
) -> None:
    contest = Contest(
        "GPU-1",
        bytes(32),
        Side(AccountId("a"), INCUMBENT_BY, incumbent),
        Side(AccountId("b"), CONTENDER_BY, contender),
    )
    assert verdict(contest, now) is expected
