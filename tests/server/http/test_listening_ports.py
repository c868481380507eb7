"""Nothing listens but what is meant to: no metrics, debug or database port was left open."""

import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.cli.command_line import CommandLine
from tests.cli.operate.platform_process import PlatformProcess
from tests.clusters import CLUSTERS
from tests.processes import ServerProcess


def listeners(process: psutil.Process) -> set[tuple[str, int]]:
    """TCP and UDP of a process and of all that it started."""
    family = [process, *process.children(recursive=True)]
    open_connections = [connection for process in family for connection in connections(process)]
    return {
        (connection.laddr.ip, connection.laddr.port)
        for connection in open_connections
        if connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM
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
    addresses = listeners(psutil.Process(server.process.pid))
    assert addresses == {("127.0.0.1", server.port)}
    assert len(psutil.Process(server.process.pid).children(recursive=True)) > 1, "PostgreSQL too"


def test_the_whole_platform_listens_at_one_place(tmp_path: Path) -> None:
    CLUSTERS.put(tmp_path / "pool" / "server")
    with PlatformProcess(CommandLine(tmp_path), tmp_path / "pool") as platform:
        port = int(platform.ready()["url"].rsplit(":", 1)[1])
        assert listeners(psutil.Process(platform.process.pid)) == {("127.0.0.1", port)}
