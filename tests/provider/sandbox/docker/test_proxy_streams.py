"""The outer side of a container's proxy, with frames as a container may send them."""

import asyncio
from pathlib import Path

from potluck.provider.sandbox.docker.attach import Attachment
from potluck.provider.sandbox.docker.container_proxy import MOST_CONNECTIONS, NUMBER, OPEN, RESET
from potluck.provider.sandbox.docker.proxy_streams import ProxyStreams


class SilentAttachment(Attachment):
    def __init__(self) -> None:
        super().__init__(asyncio.StreamReader(), None)  # type: ignore[arg-type]

    def write(self, data: bytes) -> None:
        pass


async def test_connections_that_are_reset_at_once_leave_room_for_others(tmp_path: Path) -> None:
    streams = ProxyStreams(SilentAttachment(), tmp_path / "proxy.sock")
    for number in range(4 * MOST_CONNECTIONS):
        streams.handle(OPEN, NUMBER.pack(number))
        streams.handle(RESET, NUMBER.pack(number))
        await streams.close()
