"""Keeps secrets out of a log: what a task writes of them is shown as ***.

A secret that comes in two pieces is found too: what could be the beginning of one waits until the
rest of it is there. It is no wall, since a task can write a secret in any disguise; it keeps them
from getting there by accident. Short ones are passed over, since they are in every second word.
"""

import re
from collections.abc import Iterable
from typing import Protocol

from potluck.provider.attempt_log import AttemptLog

_LEAST_CHARACTERS = 6
_MASK = b"***"


class LogWriter(Protocol):
    """Whatever takes the log of an attempt."""

    async def write(self, stream: str, data: bytes) -> None: ...

    async def remark(self, sentence: str) -> None: ...

    def flush(self) -> None: ...


class MaskedLog:
    """A log without these secrets in it. `close` lets go of what still waits."""

    def __init__(self, log: AttemptLog, secrets: Iterable[str]) -> None:
        self._log = log
        # The longest first: one may be the beginning of another.
        wanted = {each for each in secrets if len(each) >= _LEAST_CHARACTERS}
        self._secrets = sorted((each.encode() for each in wanted), key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)))
        self._waiting: dict[str, bytes] = {}

    async def write(self, stream: str, data: bytes) -> None:
        data = self._masked(self._waiting.pop(stream, b"") + data)
        if kept := self._begun(data):
            self._waiting[stream], data = data[-kept:], data[:-kept]
        await self._log.write(stream, data)

    async def remark(self, sentence: str) -> None:
        await self._log.remark(self._masked(sentence.encode()).decode())

    async def close(self) -> None:
        """No more comes, so it was none."""
        for stream in list(self._waiting):
            await self._log.write(stream, self._waiting.pop(stream))

    def flush(self) -> None:
        self._log.flush()

    def _masked(self, data: bytes) -> bytes:
        return self._pattern.sub(_MASK, data) if self._secrets else data

    def _begun(self, data: bytes) -> int:
        """How many of the last bytes could be the beginning of a secret."""
        return max((_overlap(data, secret) for secret in self._secrets), default=0)


def _overlap(data: bytes, secret: bytes) -> int:
    longest = min(len(data), len(secret) - 1)
    return next((size for size in range(longest, 0, -1) if data.endswith(secret[:size])), 0)
