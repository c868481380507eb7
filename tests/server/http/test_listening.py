"""Nothing listens but what is meant to: no metrics, debug or database port was left open."""

import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.command_line import CommandLine
from tests.cli.operate.upped import Upped
from tests.clusters import CLUSTERS
from tests.processes import ServerProcess


def listeners(process: psutil.Process) -> set[tuple[str, int]]:
    """TCP and UDP of a process and of all that it started."""
    family = [process, *process.children(recursive=True)]
    found = [each for one in family for each in connections(one)]
    return {
        (each.laddr.ip, each.laddr.port)
        for each in found
        if each.status == psutil.CONN_LISTEN or each.type == socket.SOCK_DGRAM
    }


def connections(process: psutil.Process) -> list[Any]:
    """None, of one that has ended meanwhile: PostgreSQL's come and go."""
    try:
        return list(process.net_connections("inet"))
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize("name", ["edge", "secure"])
def test_a_server_listens_at_one_place(name: str, request: pytest.FixtureRequest) -> None:
    server: ServerProcess = request.getfixturevalue(name)
    found = listeners(psutil.Process(server.process.pid))
    assert found == {("127.0.0.1", server.port)}
    assert len(psutil.Process(server.process.pid).children(recursive=True)) > 1, "PostgreSQL too"


def test_the_whole_platform_listens_at_one_place(tmp_path: Path) -> None:
    CLUSTERS.put(tmp_path / "pool" / "server")
    with Upped(CommandLine(tmp_path), tmp_path / "pool") as up:
        port = int(up.ready()["url"].rsplit(":", 1)[1])
        assert listeners(psutil.Process(up.process.pid)) == {("127.0.0.1", port)}
