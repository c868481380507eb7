"""Servers whose edge counts in tenths of seconds: one in plain HTTP, one with TLS.

Each with a PostgreSQL of its own, as what it opens is looked at too.
"""

from collections.abc import Iterator

import pytest

from tests.processes import ServerProcess, WholeServerProcess

EDGE = {
    "POTLUCK_HANDSHAKE_SECONDS": "0.4",
    "POTLUCK_HEADER_SECONDS": "0.4",
    "POTLUCK_BODY_SECONDS": "0.4",
    "POTLUCK_SEND_SECONDS": "0.8",
    "POTLUCK_KEEP_ALIVE_SECONDS": "1",
    "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0",
}


@pytest.fixture(scope="package")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with WholeServerProcess(tmp_path_factory.mktemp("edge"), 0, **EDGE) as server:
        yield server


@pytest.fixture(scope="package")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    secured = {**EDGE, "POTLUCK_TLS": "auto"}
    with WholeServerProcess(tmp_path_factory.mktemp("secure"), 0, **secured) as server:
        yield server
