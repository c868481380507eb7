"""The owner's limit of the line: kept by installations and logs together, and set at any time."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from potluck.provider.server.throttle import Throttle
from tests.provider.egress.proxies import proxy_to_index

MB = 1_000_000


class Download:
    """A tunnel through the proxy to a server that sends and takes as much as it can."""

    def __init__(self, throttle: Throttle) -> None:
        self.throttle = throttle
        self.received = 0
        self.sent = 0

    async def until_received(self, size_bytes: int) -> float:
        """The seconds until so many bytes more have come."""
        target_bytes, started = self.received + size_bytes, time.monotonic()
        async with asyncio.timeout(20):
            while self.received < target_bytes:
                await asyncio.sleep(0.005)
        return time.monotonic() - started


@asynccontextmanager
async def downloading(throttle: Throttle, path: Path) -> AsyncIterator[Download]:
    download = Download(throttle)

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(bytes(65_536))
                await writer.drain()
        except OSError:
            writer.close()

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy = proxy_to_index(("127.0.0.1", port), throttle=throttle)
    async with proxy.serving(path) as socket_path:
        reader, writer = await asyncio.open_unix_connection(str(socket_path))
        writer.write(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        drinking = asyncio.create_task(_drink(reader, download))
        try:
            yield download
        finally:
            drinking.cancel()
            writer.close()
            server.close()


async def _drink(reader: asyncio.StreamReader, download: Download) -> None:
    while chunk := await reader.read(65_536):
        download.received += len(chunk)


async def test_a_megabyte_a_second_is_kept_and_a_change_acts_at_once(tmp_path: Path) -> None:
    throttle = Throttle(MB)
    async with downloading(throttle, tmp_path) as download:
        await download.until_received(MB // 5)  # what was saved up is used
        seconds = [await download.until_received(MB)]
        while min(seconds) > 1.2 and len(seconds) < 3:  # a busy machine may stumble
            seconds.append(await download.until_received(MB))
        assert 0.8 <= min(seconds) <= 1.2, seconds
        throttle.limit(20_000)
        await asyncio.sleep(0.2)  # what was under way arrives
        before = download.received
        await asyncio.sleep(0.5)
        assert download.received - before <= 20_000, "half a second, and one piece"
        throttle.limit(10 * MB)
        assert await download.until_received(MB) <= 0.8
        throttle.limit(None)
        assert await download.until_received(20 * MB) < 5


async def test_all_who_move_bytes_share_one_limit() -> None:
    throttle = Throttle(MB)
    moved = dict.fromkeys("abc", 0)

    async def move(name: str) -> None:
        while True:
            await throttle.take(10_000)
            moved[name] += 10_000

    started = time.monotonic()
    movers = [asyncio.create_task(move(name)) for name in moved]
    await asyncio.sleep(0.5)
    for mover in movers:
        mover.cancel()
    seconds = time.monotonic() - started
    assert 0.8 * seconds <= sum(moved.values()) / MB <= 1.2 * seconds + 0.1
    assert max(moved.values()) - min(moved.values()) <= 50_000, "one after the other"


async def test_a_waiting_transfer_continues_when_the_limit_is_lifted() -> None:
    throttle = Throttle(1_000)
    await throttle.take(100_000)  # a hundred seconds of it
    waiting = asyncio.create_task(throttle.take(1))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    throttle.limit(None)
    async with asyncio.timeout(1):
        await waiting


def test_pieces_are_small_where_the_line_is_slow() -> None:
    assert Throttle().piece_bytes(65_536) == 65_536
    assert Throttle(100 * MB).piece_bytes(65_536) == 65_536
    assert Throttle(100_000).piece_bytes(65_536) == 10_000
    assert Throttle(1_000).piece_bytes(65_536) == 1_024
