"""Passes on the output of a run as it arrives, up to a limit.

Bytes are not decoded. A slow receiver slows down the run (its pipe fills) and nothing else. At the
limit the log is truncated at the exact byte and marked once with a line of our own.
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
        except _LimitReached:
            await cancel_all(*streams)
            await self._mark_cut()
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
            await self._pass_on(stream, data)

    async def _pass_on(self, stream: str, data: bytes) -> None:
        kept = data[: self._limit_bytes - self.total_bytes]
        self.total_bytes += len(kept)
        if kept:
            await self._output(stream, kept)
        if len(kept) < len(data):
            raise _LimitReached

    async def _mark_cut(self) -> None:
        self.is_cut = True
        await self._output("potluck", f"{self.cut_sentence}; the rest is cut\n".encode())

    @property
    def cut_sentence(self) -> str:
        return f"the log limit of {self._limit_bytes / MIB:g} MiB was reached"


class _LimitReached(Exception):
    """The streams together are over the limit; neither is read further."""


def _unread_bytes(descriptor: int) -> int:
    count = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]
