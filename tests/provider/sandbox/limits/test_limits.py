"""Every limit holds on every driver, and whoever touches one is told which."""

import pytest

from potluck.model.task import EndReason
from tests.case_counts import CaseCounts, counting_cases
from tests.provider.sandbox.conftest import Host, hosting
from tests.provider.sandbox.docker.engine import ENGINES, starting
from tests.provider.sandbox.limits.limit_cases import LIMITS, MOST_SHARE, NAMES, share, touch


def test_the_processor_is_shared_as_asked(host: Host) -> None:
    if host.report.cpu == "none":
        pytest.skip("nothing limits the CPU here, and the report says so")
    assert share(host) < MOST_SHARE


def test_empty_files_fill_the_disk_too(host: Host) -> None:
    outcome = touch(host, NAMES).ended
    assert outcome is not None and outcome.reason is EndReason.DISK_LIMIT, outcome


@pytest.mark.long
def test_bubblewrap(host: Host, is_root: bool, request: pytest.FixtureRequest) -> None:
    with counting_cases(request) as tally:
        all_hold(host, f"limits of bubblewrap as {'root' if is_root else 'a user'}", tally)


@pytest.mark.long
@pytest.mark.parametrize("name", ENGINES)
def test_engines(name: str, request: pytest.FixtureRequest) -> None:
    with (
        starting(name) as engine,
        hosting(True, engine.kind) as host,
        counting_cases(request) as tally,
    ):
        all_hold(host, f"limits of {name}", tally)


def all_hold(host: Host, row: str, tally: CaseCounts) -> None:
    for limit in LIMITS:
        with tally(row, limit.name):
            outcome = touch(host, limit).ended
            assert outcome is not None
            assert outcome.reason is limit.reason, outcome
            assert outcome.run_seconds < 20
    if host.report.cpu != "none":
        with tally(row, "processor"):
            assert share(host) < MOST_SHARE
