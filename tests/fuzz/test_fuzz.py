"""A small run of what `make fuzz` does at length: bad input is a 4xx, and never a 5xx."""

from pathlib import Path

import pytest

from potluck.server.api.operations import OPERATIONS
from tests.case_counts import counting_cases
from tests.fuzz.counts import Counts
from tests.fuzz.run import fuzz
from tests.security.test_permission_matrix import PAGES

SEED = 20_261_116  # the same requests in every run; `make fuzz` draws its own


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "by_schema",
    [
        pytest.param(40, id="wrong ones"),
        pytest.param(1_600, id="right ones too", marks=pytest.mark.long),
    ],
)
def test_no_request_is_the_server_s_mistake(
    tmp_path: Path, database_url: str, request: pytest.FixtureRequest, by_schema: int
) -> None:
    counts = Counts(SEED)
    fuzz(tmp_path, database_url, counts, by_schema, share=0.01)
    summary = counts.report()
    with counting_cases(request) as tally:
        tally.note(
            f"fuzz: {summary['requests']} requests, {summary['server_errors']} server errors"
        )
        with tally("fuzz, no server error", "all of them"):
            assert not counts.mistakes, counts.written()
    assert summary["operations"] == len(OPERATIONS) - len(PAGES)
    # Strangers and everybody else were asked about, and some of it was let through.
    assert len(counts.by_caller) == 5 and counts.by_status[200] and counts.by_status[401]
