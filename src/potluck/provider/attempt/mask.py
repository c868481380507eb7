"""Shows secrets as ***.

It is no wall, since a task can write a secret in any disguise; it keeps them from getting somewhere
by accident. Short ones are passed over, since they are in every second word.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Protocol

from potluck.model.bounded_types import LEAST_MASKED_CHARACTERS
from potluck.provider.attempt.log_buffer import LogBuffer

_STARS = b"***"


class Mask:
    """Of the secrets of one task; false where it has none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one may be the beginning of another.
        wanted = {each for each in secrets if len(each) >= LEAST_MASKED_CHARACTERS}
        self._secrets = sorted((_Secret(each.encode()) for each in wanted), key=len, reverse=True)

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
        """How many of the first bytes mean the same whatever comes behind them: the rest could be
        the beginning of a secret, or is one that has to stay together with that."""
        begun = max((secret.begun(data) for secret in self._secrets), default=0)
        end = len(data) - begun
        if begun:
            for found_start, found_end in self._found(data):
                if found_start < end < found_end:
                    return found_start
        return end

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where secrets begin and end; of two at one place the longer one."""
        places = [(data.find(secret.data), secret) for secret in self._secrets]
        while places := [each for each in places if each[0] >= 0]:
            start, found = min(places, key=lambda each: each[0])
            end = start + len(found)
            yield start, end
            places = [
                (place if place >= end else data.find(secret.data, end), secret)
                for place, secret in places
            ]


class _Secret:
    """Looked for in time that grows with the log alone, however the secret repeats itself."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def begun(self, data: bytes) -> int:
        """How long the end of the data is with which the secret begins, all of it left out."""
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
        """Of the first bytes, one more each time: with how many of them they begin and end."""
        secret, borders, length = self.data, [0], 0
        for byte in secret[1:]:
            while length and secret[length] != byte:
                length = borders[length - 1]
            if secret[length] == byte:
                length += 1
            borders.append(length)
        return borders


class LogWriter(Protocol):
    """Whatever takes the log of an attempt."""

    async def write(self, stream: str, data: bytes) -> None: ...

    async def remark(self, sentence: str) -> None: ...

    def flush(self) -> None: ...


class MaskedLog:
    """A log without what the mask hides. `close` lets go of what still waits."""

    def __init__(self, log: LogBuffer, mask: Mask) -> None:
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
