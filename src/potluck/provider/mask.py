"""Shows secrets as ***.

It is no wall, since a task can write a secret in any disguise; it keeps them from getting somewhere
by accident. Short ones are passed over, since they are in every second word.
"""

import re
from collections.abc import Iterable, Iterator

from potluck.model.text import LEAST_MASKED_CHARACTERS

_STARS = b"***"
_HEAD_BYTES = 32


class Mask:
    """Of the secrets of one task; false where it has none."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one may be the beginning of another.
        wanted = {each for each in secrets if len(each) >= LEAST_MASKED_CHARACTERS}
        self._secrets = sorted((each.encode() for each in wanted), key=len, reverse=True)
        # A pattern of whole secrets would take seconds to make where they are long.
        heads = {secret[:_HEAD_BYTES] for secret in self._secrets}
        self._heads = re.compile(b"|".join(map(re.escape, sorted(heads))))

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
        begun = max((_overlap(data, secret) for secret in self._secrets), default=0)
        end = len(data) - begun
        if begun:
            for found_start, found_end in self._found(data):
                if found_start < end < found_end:
                    return found_start
        return end

    def _found(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Where secrets begin and end; of two at one place the longer one."""
        at = 0
        while self and (head := self._heads.search(data, at)) is not None:
            start = head.start()
            here = (len(each) for each in self._secrets if data.startswith(each, start))
            length = next(here, 0)
            if length:
                yield start, start + length
            at = start + (length or 1)


def _overlap(data: bytes, secret: bytes) -> int:
    """How long the end of the data is with which the secret begins; it may be long itself."""
    tail, first = data[1 - len(secret) :], secret[:LEAST_MASKED_CHARACTERS]
    at = tail.find(first)
    while at >= 0:
        if secret.startswith(tail[at:]):
            return len(tail) - at
        at = tail.find(first, at + 1)
    return next((size for size in range(len(first) - 1, 0, -1) if tail.endswith(first[:size])), 0)
