"""A PostgreSQL for histories, one per test process."""

from collections.abc import Iterator

import pytest

from verification.faults.cluster import history_cluster
from verification.faults.sessions import Sessions, open_sessions


@pytest.fixture(scope="session")
def history_url() -> Iterator[str]:
    with history_cluster() as url:
        yield url


@pytest.fixture
def sessions(history_url: str) -> Iterator[Sessions]:
    with open_sessions(history_url) as sessions:
        yield sessions
