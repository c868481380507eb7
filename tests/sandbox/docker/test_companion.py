"""Somebody outside talks with a command in a container as if nothing were between them."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import PYTHON, Touched, View
from tests.sandbox.conftest import confinement
from tests.sandbox.docker.engine import Started

# Answers every message with its size, and writes as much to stdout first.
ECHO = """
import os, socket
channel = socket.socket(fileno=os.dup(0))
while told := channel.recv(1 << 20):
    os.write(1, b'x' * len(told))
    channel.send(told[::-1])
print('silence')
"""
DONE = Touched(EndReason.COMPLETED, "all was said")


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

    async def talk(self, view: View) -> Touched | None:
        loop = asyncio.get_running_loop()
        for message in self._messages:
            await loop.sock_sendall(self._ours, message)
            answer = b""
            while len(answer) < len(message):
                answer += await loop.sock_recv(self._ours, 1 << 20)
            self.heard.append(answer)
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


@pytest.mark.parametrize(
    ("kind", "hangs_up"),
    [(socket.SOCK_SEQPACKET, False), (socket.SOCK_STREAM, True)],
    ids=["packets", "stream"],
)
async def test_messages_arrive_whole_and_after_what_was_written_before(
    docker: Started, tmp_path: Path, kind: int, hangs_up: bool
) -> None:
    messages = [b"one", bytes(range(256)) * 100, b"three"]
    driver = docker.driver(tmp_path)
    await driver.probe()
    speaker = Speaker(kind, messages, hangs_up)
    try:
        ended = await driver.run(
            confinement(command=(PYTHON, "-I", "-c", ECHO)), speaker.output, companion=speaker
        )
    finally:
        speaker.close()
    assert ended.reason is EndReason.COMPLETED, (ended, speaker.written)
    assert speaker.heard == [message[::-1] for message in messages]
    assert speaker.written_before == [3, 25_603, 25_608]
    assert speaker.written.endswith(b"silence\n") is hangs_up
