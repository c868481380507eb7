"""Passes on the output of a run as it arrives.

Bytes are not decoded. A slow receiver slows down the run (its pipe fills) and nothing else.
"""

import asyncio
import fcntl
import os
import termios
from array import array

from potluck.provider.sandbox.driver import Output, cancel_all, wait_readable

PIECE_BYTES = 65_536


class OutputPump:
    """Both streams of one run."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._descriptors: tuple[int, ...] = ()
        self.total_bytes = 0

    async def pump(self, stdout: int, stderr: int) -> None:
        """Returns when both streams have ended."""
        self._descriptors = (stdout, stderr)
        streams = [
            asyncio.create_task(self._pump_one("stdout", stdout)),
            asyncio.create_task(self._pump_one("stderr", stderr)),
        ]
        try:
            done, _ = await asyncio.wait(streams, return_when=asyncio.FIRST_EXCEPTION)
            for stream in done:
                stream.result()
        finally:
            self._descriptors = ()
            await cancel_all(*streams)

    async def drained(self) -> None:
        """Returns when all output written so far has been passed on."""
        # Only the kernel knows, so this polls.
        while any(map(_unread_bytes, self._descriptors)):  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def _pump_one(self, stream: str, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        while True:
            await wait_readable(descriptor)
            try:
                data = os.read(descriptor, PIECE_BYTES)
            except BlockingIOError:
                continue
            if not data:
                return
            self.total_bytes += len(data)
            await self._output(stream, data)


def _unread_bytes(descriptor: int) -> int:
    count = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]
