"""The log of a run: order, back-pressure, failure of whoever listens."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from potluck.provider.sandbox.output_pump import OutputPump


@contextmanager
def pipes() -> Iterator[tuple[int, int, int, int]]:
    """Reading and writing ends of stdout, then of stderr; the test closes the writing ends."""
    stdout, stdout_end = os.pipe()
    stderr, stderr_end = os.pipe()
    try:
        yield stdout, stdout_end, stderr, stderr_end
    finally:
        os.close(stdout)
        os.close(stderr)


async def test_a_slow_listener_slows_the_writer_down() -> None:
    chunks: list[bytes] = []
    may_listen = asyncio.Event()

    async def listen(_: str, data: bytes) -> None:
        await may_listen.wait()
        chunks.append(data)

    with pipes() as (stdout, stdout_end, stderr, stderr_end):
        os.set_blocking(stdout_end, False)
        pumping = asyncio.create_task(OutputPump(listen).pump(stdout, stderr))
        os.close(stderr_end)
        written = await _fill(stdout_end)
        assert written <= 4 * 65_536  # one piece in hand, and what a pipe holds
        may_listen.set()
        os.close(stdout_end)
        await pumping
    assert sum(map(len, chunks)) == written


async def test_the_failure_of_a_listener_is_its_own() -> None:
    async def fail(_: str, data: bytes) -> None:
        raise ValueError(data.decode())

    with pipes() as (stdout, stdout_end, stderr, stderr_end):
        os.write(stdout_end, b"too much for me")
        with pytest.raises(ValueError, match="too much for me"):
            await OutputPump(fail).pump(stdout, stderr)
        os.close(stdout_end)
        os.close(stderr_end)


async def _fill(descriptor: int) -> int:
    """Writes until the pipe has taken nothing for many turns of the event loop."""
    written, idle_turns = 0, 0
    while idle_turns < 200:
        try:
            written += os.write(descriptor, bytes(65_536))
            idle_turns = 0
        except BlockingIOError:
            idle_turns += 1
        await asyncio.sleep(0)
    return written
