"""Keeps secrets out of a log.

A secret that comes in two pieces is found too: what could be the beginning of one waits until the
rest of it is there.
"""

from typing import Protocol

from potluck.provider.attempt.log_buffer import AttemptLog
from potluck.provider.attempt.mask import Mask


class LogWriter(Protocol):
    """Whatever takes the log of an attempt."""

    async def write(self, stream: str, data: bytes) -> None: ...

    async def remark(self, sentence: str) -> None: ...

    def flush(self) -> None: ...


class MaskedLog:
    """A log without what the mask hides. `close` lets go of what still waits."""

    def __init__(self, log: AttemptLog, mask: Mask) -> None:
        self._log = log
        self._mask = mask
        self._waiting: dict[str, bytes] = {}

    async def write(self, stream: str, data: bytes) -> None:
        data = self._waiting.pop(stream, b"") + data
        settled = self._mask.settled(data)
        if waiting := data[settled:]:
            self._waiting[stream] = waiting
        await self._log.write(stream, self._mask.data(data[:settled]))

    async def remark(self, sentence: str) -> None:
        await self._log.remark(self._mask.text(sentence))

    async def close(self) -> None:
        """No more comes, so nothing goes on."""
        for stream in list(self._waiting):
            await self._log.write(stream, self._mask.data(self._waiting.pop(stream)))

    def flush(self) -> None:
        self._log.flush()
