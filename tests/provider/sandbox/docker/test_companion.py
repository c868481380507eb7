"""Somebody outside talks with a command in a container as if nothing were between them."""

import asyncio
import os
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import (
    PYTHON,
    NoErrand,
    RunHooks,
    RunOutcome,
    RunView,
    WorkDirectory,
)
from tests.provider.sandbox.conftest import confinement
from tests.provider.sandbox.docker.engine import Started

# Answers every message with its size, and writes as much to stdout first.
ECHO = """
import os, socket
channel = socket.socket(fileno=os.dup(0))
while told := channel.recv(1 << 20):
    os.write(1, b'x' * len(told))
    channel.send(told[::-1])
print('silence')
"""
DONE = RunOutcome(EndReason.COMPLETED, "all was said")


class Speaker:
    """Says the messages one after the other, and hears an answer to each."""

    def __init__(self, kind: int, messages: list[bytes], hangs_up: bool) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, kind)
        self._ours.setblocking(False)
        self.stdin = self._theirs.fileno()
        self._messages = messages
        self._hangs_up = hangs_up
        self.written = bytearray()
        self.heard: list[bytes] = []
        self.written_before: list[int] = []

    async def output(self, stream: str, data: bytes) -> None:
        assert stream == "stdout", data
        self.written.extend(data)

    async def talk(self, view: RunView) -> RunOutcome | None:
        loop = asyncio.get_running_loop()
        for message in self._messages:
            await loop.sock_sendall(self._ours, message)
            response = b""
            while len(response) < len(message):
                response += await loop.sock_recv(self._ours, 1 << 20)
            self.heard.append(response)
            await view.drained()
            self.written_before.append(len(self.written))
        assert view.spent().cpu_seconds > 0
        assert os.listdir(view.work.descriptor) == [".tmp"]  # noqa: PTH208
        if not self._hangs_up:
            return DONE
        self._ours.shutdown(socket.SHUT_WR)
        return None

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class Listener(NoErrand):
    """Hears what is said until nothing will be, before the directory goes."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._ours.setblocking(False)
        self.stdin = self._theirs.fileno()
        self.heard = b""

    async def talk(self, view: RunView) -> RunOutcome | None:
        self._theirs.close()
        return None

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(20):
            while data := await loop.sock_recv(self._ours, 100):
                self.heard += data
        self._ours.close()


async def test_the_last_output_of_a_killed_command_is_received(
    docker: Started, tmp_path: Path
) -> None:
    driver, listener = docker.driver(tmp_path), Listener()
    await driver.probe()
    source = "import os, time; os.write(0, b'last words'); time.sleep(60)"
    killed = replace(confinement(command=(PYTHON, "-I", "-c", source)), seconds=1.0)
    outcome = await driver.run(killed, _nowhere, RunHooks(companion=listener, errand=listener))

    assert outcome.reason is EndReason.TIME_LIMIT
    assert listener.heard == b"last words"


async def _nowhere(_: str, __: bytes) -> None:
    pass


@pytest.mark.parametrize(
    ("kind", "hangs_up"),
    [(socket.SOCK_SEQPACKET, False), (socket.SOCK_STREAM, True)],
    ids=["packets", "stream"],
)
async def test_messages_arrive_whole_and_after_earlier_output(
    docker: Started, tmp_path: Path, kind: int, hangs_up: bool
) -> None:
    messages = [b"one", bytes(range(256)) * 100, b"three"]
    driver = docker.driver(tmp_path)
    await driver.probe()
    speaker = Speaker(kind, messages, hangs_up)
    try:
        outcome = await driver.run(
            confinement(command=(PYTHON, "-I", "-c", ECHO)),
            speaker.output,
            RunHooks(companion=speaker),
        )
    finally:
        speaker.close()
    assert outcome.reason is EndReason.COMPLETED, (outcome, speaker.written)
    assert speaker.heard == [message[::-1] for message in messages]
    assert speaker.written_before == [3, 25_603, 25_608]
    assert speaker.written.endswith(b"silence\n") is hangs_up
