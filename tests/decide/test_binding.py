"""Whose a contested device becomes, as a table."""

from datetime import UTC, datetime, timedelta

import pytest

from potluck.decide.binding import BindingClaim, BindingVerdict, Contest, decide_binding
from potluck.model.ids import AccountId

# The contender's time is over first, then the incumbent's, which may be away.
CONTENDER_BY = datetime(2026, 1, 1, tzinfo=UTC)
INCUMBENT_BY = CONTENDER_BY + timedelta(days=1)
EARLY, BETWEEN, LATE = CONTENDER_BY - timedelta(seconds=1), CONTENDER_BY, INCUMBENT_BY

CASES = [
    # (the incumbent was right, the contender was, when, what becomes of it)
    (None, None, EARLY, BindingVerdict.OPEN),
    (None, True, EARLY, BindingVerdict.OPEN),  # the incumbent still has time
    (True, None, EARLY, BindingVerdict.KEPT),  # an answer is an answer; nobody has to wait
    (True, True, EARLY, BindingVerdict.KEPT),
    (False, None, EARLY, BindingVerdict.OPEN),  # a wrong one loses it only to a right one
    (False, True, EARLY, BindingVerdict.MOVED),
    (False, False, EARLY, BindingVerdict.KEPT),
    (None, False, EARLY, BindingVerdict.KEPT),  # nobody waits for who was wrong
    (None, None, BETWEEN, BindingVerdict.KEPT),  # silence wins nothing
    (False, None, BETWEEN, BindingVerdict.KEPT),
    (None, True, BETWEEN, BindingVerdict.OPEN),
    (False, True, BETWEEN, BindingVerdict.MOVED),
    (None, True, LATE, BindingVerdict.MOVED),
    (True, True, LATE, BindingVerdict.KEPT),
    (True, None, LATE, BindingVerdict.KEPT),
]


@pytest.mark.parametrize(("incumbent", "contender", "now", "expected"), CASES)
def test_the_verdict(
    incumbent: bool | None, contender: bool | None, now: datetime, expected: BindingVerdict
) -> None:
    contest = Contest(
        "GPU-1",
        bytes(32),
        BindingClaim(AccountId("a"), INCUMBENT_BY, incumbent),
        BindingClaim(AccountId("b"), CONTENDER_BY, contender),
    )
    assert decide_binding(contest, now) is expected
