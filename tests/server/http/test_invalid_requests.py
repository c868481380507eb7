"""Junk to every route that a stranger may call: refused, quickly, and never a mistake of ours."""

from collections.abc import Iterator

import pytest

from bench.junk import JUNK, MOST_SECONDS, ROUTES, SIZES, Finding, measure
from tests.processes import ServerProcess

# These read no body, and answer as they always do.
BODILESS = {"healthz", "readyz", "challenge", "package", "joining", "signer"}


@pytest.fixture(scope="module")
def findings(edge: ServerProcess) -> Iterator[list[Finding]]:
    yield list(measure(edge.url, 2))


def test_every_open_route_gets_every_kind(findings: list[Finding]) -> None:
    assert (
        {finding.route for finding in findings} == set(ROUTES) >= {"login", "refresh", "node_login"}
    )
    assert len(findings) == len(ROUTES) * len(SIZES) * len(JUNK)


def test_junk_is_the_client_s_mistake(findings: list[Finding]) -> None:
    unexpected = [
        finding
        for finding in findings
        if finding.route not in BODILESS and not 400 <= finding.status < 500
    ]
    assert not unexpected
    assert {finding.status for finding in findings if finding.route in BODILESS} == {200}


def test_junk_is_answered_in_less_than_50_milliseconds(
    findings: list[Finding], edge: ServerProcess
) -> None:
    """By the best of a few tries: the other tests run at the same time."""
    if _slow(findings):
        assert not _slow(list(measure(edge.url, 8)))


def _slow(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.best_seconds > MOST_SECONDS]
