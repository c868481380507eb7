"""PostgreSQL with a clock that tests set, of both versions that are supported."""

from collections.abc import Iterator

import pytest

from tests.databases import Databases
from tests.simulate.clocked import clocked_database


@pytest.fixture(scope="session")
def _clocked(databases: Databases) -> Iterator[str]:
    with clocked_database(databases.server_url) as url:
        yield url


@pytest.fixture(scope="session")
def _debian_clocked(debian_databases: Databases) -> Iterator[str]:
    with clocked_database(debian_databases.server_url) as url:
        yield url


@pytest.fixture(params=["PostgreSQL 18", "the system's PostgreSQL"])
def clocked_url(request: pytest.FixtureRequest) -> str:
    name = "_clocked" if request.param == "PostgreSQL 18" else "_debian_clocked"
    url: str = request.getfixturevalue(name)
    return url
