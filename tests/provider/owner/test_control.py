"""Commands talk with the provider that runs here, and nobody else does."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from potluck.model.error import DataDirectoryInUse, NotRunning
from potluck.provider.control import socket_path
from potluck.provider.control.client import ask
from potluck.provider.control.listener import listening
from potluck.provider.control.message import (
    Answer,
    CommandRefused,
    Drain,
    InEffect,
    Reclaim,
    Request,
    ShowStatus,
)
from tests.control_request import ask_once


async def echo(request: Request) -> AsyncGenerator[Answer]:
    yield CommandRefused(type(request).__name__)
    if isinstance(request, Reclaim):
        yield CommandRefused(",".join(request.devices))
    yield InEffect()


@pytest.fixture(params=["socket", "long", "port"])
def directory(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A Unix socket, one with a path longer than sockets may have, and a port with a token."""
    if request.param == "port":
        monkeypatch.setattr(socket_path, "has_sockets", lambda _: False)
    data_directory = tmp_path / ("d" * 150 if request.param == "long" else "data")
    data_directory.mkdir()
    return data_directory


async def test_each_answer_reaches_its_caller(directory: Path) -> None:
    async with listening(directory, echo):
        responses = await asyncio.to_thread(list, ask(directory, Reclaim(("GPU-1", "GPU-2"))))
        assert responses == [CommandRefused("Reclaim"), CommandRefused("GPU-1,GPU-2"), InEffect()]
        assert await asyncio.to_thread(ask_once, directory, ShowStatus()) == InEffect()
    with pytest.raises(NotRunning, match="No provider runs"):
        ask_once(directory, ShowStatus())
    assert list(directory.iterdir()) == [], "nothing is left behind"


async def test_a_stale_socket_is_no_running_provider(directory: Path) -> None:
    bound, _ = socket_path.bind(directory)
    bound.close()
    with pytest.raises(NotRunning, match="No provider runs"):
        ask_once(directory, ShowStatus())
    async with listening(directory, echo):
        assert await asyncio.to_thread(ask_once, directory, ShowStatus()) == InEffect()


async def test_only_its_owner_can_open_it(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the moment on when it is there, whatever the user lets others do."""
    monkeypatch.setattr(Path, "chmod", None)
    umask = os.umask(0)
    try:
        async with listening(directory, echo):
            (socket_file,) = directory.iterdir()
            assert stat.S_IMODE(socket_file.stat().st_mode) == 0o600
            assert os.umask(0) == 0, "as it was"
    finally:
        os.umask(umask)


async def test_a_file_system_without_sockets_has_a_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> socket.socket:
        raise OSError(errno.EOPNOTSUPP, "no sockets here")

    monkeypatch.setattr(socket_path, "_bind_unix", refuse)
    async with listening(tmp_path, echo):
        assert await asyncio.to_thread(ask_once, tmp_path, ShowStatus()) == InEffect()


async def test_requests_without_the_token_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_path, "has_sockets", lambda _: False)
    requests: list[Request] = []

    async def note(request: Request) -> AsyncGenerator[Answer]:
        requests.append(request)
        yield InEffect()

    async with listening(tmp_path, note):
        endpoint = msgspec.json.decode(
            socket_path.port_path(tmp_path).read_bytes(), type=socket_path.Port
        )
        for first_line in (b"wrong\n", b"\n", endpoint.token.encode()[:-1] + b"\n"):
            reader, writer = await asyncio.open_connection(socket_path.LOOPBACK, endpoint.port)
            writer.write(first_line + msgspec.json.encode(Drain()) + b"\n")
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
    assert requests == []


async def test_unknown_commands_are_refused_and_others_still_served(tmp_path: Path) -> None:
    async with listening(tmp_path, echo):
        for line in (b'{"ask":"dance"}\n', b"\xff\n", b"x" * 100_000):
            connection, _ = socket_path.connect(tmp_path, 5)
            with connection:
                await asyncio.to_thread(connection.sendall, line)
                connection.shutdown(socket.SHUT_WR)
                response = await asyncio.to_thread(_all_of, connection)
            assert response == b"" or b"different versions" in response
        assert await asyncio.to_thread(ask_once, tmp_path, ShowStatus()) == InEffect()


async def test_closed_connections_undo_nothing_and_open_ones_get_the_last_answer(
    tmp_path: Path,
) -> None:
    carried_out, asked_event = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> AsyncGenerator[Answer]:
        asked_event.set()
        for _ in range(3):
            yield CommandRefused("not yet")
        await carried_out.wait()
        yield InEffect()

    async with listening(tmp_path, slow):
        closed_connection, _ = socket_path.connect(tmp_path, 5)
        closed_connection.sendall(msgspec.json.encode(Drain()) + b"\n")
        await asked_event.wait()
        closed_connection.close()
        asked_event.clear()
        waiting = asyncio.create_task(asyncio.to_thread(ask_once, tmp_path, Drain()))
        await asked_event.wait()
        carried_out.set()
    assert await waiting == InEffect()


async def test_a_provider_that_hangs_or_ends_is_reported(tmp_path: Path) -> None:
    bound, _ = socket_path.bind(tmp_path)
    with bound:
        with pytest.raises(DataDirectoryInUse, match="does not answer"):
            await asyncio.to_thread(list, ask(tmp_path, ShowStatus(), patience_seconds=0.1))
        waiting = asyncio.create_task(asyncio.to_thread(ask_once, tmp_path, ShowStatus()))
        for _ in range(2):  # the first one waits there still
            connection, _ = await asyncio.to_thread(bound.accept)
            connection.recv(1000)
            connection.close()
    with pytest.raises(NotRunning, match="stopped before it was done"):
        await waiting


async def test_a_provider_of_another_version_still_runs(tmp_path: Path) -> None:
    bound, _ = socket_path.bind(tmp_path)
    with bound:
        waiting = asyncio.create_task(asyncio.to_thread(ask_once, tmp_path, ShowStatus()))
        connection, _ = await asyncio.to_thread(bound.accept)
        connection.recv(1000)
        connection.sendall(b'{"answer":"song"}\n')
        connection.close()
    with pytest.raises(DataDirectoryInUse, match="another version"):
        await waiting


def _all_of(connection: socket.socket) -> bytes:
    try:
        return b"".join(iter(lambda: connection.recv(65_536), b""))
    except ConnectionResetError:
        return b""


def test_a_long_path_is_shortened_without_leaking(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 150)
    deep.mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    bound, _ = socket_path.bind(deep)
    bound.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert socket_path.socket_path(deep).is_socket()
