"""A real server process for the API tests: real uvicorn, real PostgreSQL, real sockets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def data_directory(tmp_path: Path) -> Path:
    return tmp_path / "server"
