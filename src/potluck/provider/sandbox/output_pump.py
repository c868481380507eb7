"""What a run writes: passed on as it comes, up to a limit.

Bytes stay bytes. A slow receiver slows the run down (its pipe fills) and nothing else. Over the
limit the log is cut at the exact byte, and the cut is marked once with a line of our own.
"""

import asyncio
import fcntl
import os
import termios
from array import array

from potluck.model.task import MIB
from potluck.provider.sandbox.driver import Output, cancel_all, wait_readable

PIECE_BYTES = 65_536


class OutputPump:
    """Both streams of one run."""

    def __init__(self, output: Output, limit_bytes: int) -> None:
        self._output = output
        self._limit_bytes = limit_bytes
        self._descriptors: tuple[int, ...] = ()
        self.total_bytes = 0
        self.is_cut = False

    async def pump(self, stdout: int, stderr: int) -> None:
        """Returns when both streams have ended, or with `is_cut` set at the limit."""
        self._descriptors = (stdout, stderr)
        streams = [
            asyncio.create_task(self._pump_one("stdout", stdout)),
            asyncio.create_task(self._pump_one("stderr", stderr)),
        ]
        try:
            done, _ = await asyncio.wait(streams, return_when=asyncio.FIRST_EXCEPTION)
            for stream in done:
                stream.result()
        except _Cut:
            await cancel_all(*streams)
            await self._mark_cut()
        finally:
            self._descriptors = ()
            await cancel_all(*streams)

    async def drained(self) -> None:
        """Returns when all that was written until now has been passed on."""
        # Only the kernel knows, so it is asked.
        while any(_unread_bytes(each) for each in self._descriptors):  # noqa: ASYNC110
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
            await self._pass_on(stream, data)

    async def _pass_on(self, stream: str, data: bytes) -> None:
        data, rest = _split(data, self._limit_bytes - self.total_bytes)
        self.total_bytes += len(data)
        if data:
            await self._output(stream, data)
        if rest:
            raise _Cut

    async def _mark_cut(self) -> None:
        self.is_cut = True
        await self._output("potluck", f"{self.cut_sentence}; the rest is cut\n".encode())

    @property
    def cut_sentence(self) -> str:
        return f"the log limit of {self._limit_bytes / MIB:g} MiB was reached"


class _Cut(Exception):
    """One stream went over the limit; both are given up."""


def _unread_bytes(descriptor: int) -> int:
    answer = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, answer)
    return answer[0]


def _split(data: bytes, room_bytes: int) -> tuple[bytes, bytes]:
    return data[:room_bytes], data[room_bytes:]
