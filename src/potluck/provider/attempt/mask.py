"""Replaces secrets in logs and texts by ***.

This only prevents accidents: a task can encode a secret in any way. Short secrets are not masked,
since they would match parts of ordinary words.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Protocol

from potluck.model.bounded_types import LEAST_MASKED_CHARACTERS
from potluck.provider.attempt.last_lines import KEPT_BYTES, last_lines
from potluck.provider.attempt.log_limit import LimitedLog

_STARS = b"***"


class Mask:
    """The secrets of one task; false if it has none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Longest first: one may be the beginning of another.
        long = {text for text in secrets if len(text) >= LEAST_MASKED_CHARACTERS}
        self._secrets = sorted((_Secret(text.encode()) for text in long), key=len, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def text(self, text: str) -> str:
        if not self:
            return text
        lenient = ("utf-8", "surrogatepass")
        return self.data(text.encode(*lenient)).decode(*lenient)

    def data(self, data: bytes) -> bytes:
        shown, at = [], 0
        for start, end in self._found(data):
            shown += [data[at:start], _STARS]
            at = end
        return b"".join((*shown, data[at:])) if shown else data

    def settled(self, data: bytes) -> int:
        """How many of the first bytes can be masked now: the rest could be the beginning of a
        secret, or is one that overlaps such a beginning.
        """
        begun = max((secret.begun(data) for secret in self._secrets), default=0)
        end = len(data) - begun
        if begun:
            for secret_start, secret_end in self._found(data):
                if secret_start < end < secret_end:
                    return secret_start
        return end

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Start and end of each secret in the data; of two at one position the longer one."""
        matches = [(data.find(secret.data), secret) for secret in self._secrets]
        while matches := [match for match in matches if match[0] >= 0]:
            start, first = min(matches, key=lambda match: match[0])
            end = start + len(first)
            yield start, end
            matches = [
                (at if at >= end else data.find(secret.data, end), secret) for at, secret in matches
            ]


class _Secret:
    """Matched with Knuth-Morris-Pratt: in linear time, even for a secret that repeats itself."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def begun(self, data: bytes) -> int:
        """The length of the longest end of the data that is a proper prefix of the secret."""
        tail, first = data[1 - len(self) :], self.data[:LEAST_MASKED_CHARACTERS]
        at = tail.find(first)
        secret, borders, length = self.data, self._borders, 0
        for byte in tail[at if at >= 0 else 1 - len(first) :]:
            while length and secret[length] != byte:
                length = borders[length - 1]
            if secret[length] == byte:
                length += 1
        return length

    @cached_property
    def _borders(self) -> list[int]:
        """For each prefix of the secret: the length of its longest proper prefix and suffix."""
        secret, borders, length = self.data, [0], 0
        for byte in secret[1:]:
            while length and secret[length] != byte:
                length = borders[length - 1]
            if secret[length] == byte:
                length += 1
            borders.append(length)
        return borders


class LogWriter(Protocol):
    async def write(self, stream: str, data: bytes) -> None: ...

    async def remark(self, sentence: str) -> None: ...

    async def begin_item(self, item: int) -> None: ...


class MaskedLog:
    """A log that masks secrets, also those that come in two pieces: the possible beginning of one
    is held back until more comes, or `close`.
    """

    def __init__(self, log: LimitedLog, mask: Mask) -> None:
        self._log = log
        self._mask = mask
        self._waiting: dict[str, bytes] = {}
        self._stderr_end = b""  # masked

    async def write(self, stream: str, data: bytes) -> None:
        data = self._waiting.pop(stream, b"") + data
        settled = self._mask.settled(data)
        if waiting := data[settled:]:
            self._waiting[stream] = waiting
        masked = self._mask.data(data[:settled])
        if stream == "stderr":
            self._stderr_end = (self._stderr_end + masked)[-KEPT_BYTES:]
        await self._log.write(stream, masked)

    def last_lines(self, exception: str = "") -> str:
        """What the code, or the present item, wrote last to stderr; then its exception."""
        waiting = self._mask.data(self._waiting.get("stderr", b""))
        return last_lines(self._stderr_end + waiting, exception)

    def forget_last_lines(self) -> None:
        """The next lines belong to another item."""
        self._stderr_end = b""

    async def remark(self, sentence: str) -> None:
        await self._log.remark(self._mask.text(sentence))

    async def begin_item(self, item: int) -> None:
        await self._flush()
        self.forget_last_lines()
        await self._log.begin_item(item)

    async def close(self) -> None:
        await self._flush()
        await self._log.close()

    async def _flush(self) -> None:
        for stream in list(self._waiting):
            await self._log.write(stream, self._mask.data(self._waiting.pop(stream)))
