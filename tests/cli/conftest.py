"""A fake server and a user of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, InProcess
from tests.consumer.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        yield fake


@pytest.fixture
def user(tmp_path: Path, server: FakeServer) -> CommandLine:
    """Speaks to the fake server."""
    return InProcess(tmp_path / "config", server.url)


@pytest.fixture
def process_user(tmp_path: Path, server: FakeServer) -> CommandLine:
    """The same, with a real process for each command."""
    return CommandLine(tmp_path / "config", server.url)


@pytest.fixture
def stranger(tmp_path: Path) -> CommandLine:
    """Has no profile and knows no server."""
    return InProcess(tmp_path / "config")
