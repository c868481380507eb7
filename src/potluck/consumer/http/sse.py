"""Server-Sent Events: bytes in, whole events out.

An event counts only when its blank line has come, so one that was cut in the middle is not seen at
all, and asking again from the last id that was seen loses nothing and repeats nothing.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

# A carriage return at the very end may be half of a pair, so it waits for what follows.
_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class SentEvent(Struct, frozen=True):
    id: str | None
    data: str  # empty if it only says how far the stream has come
    kind: str = ""


class EventReader:
    """Keeps what has come of the next event."""

    def __init__(self) -> None:
        self._rest = b""
        self._id: str | None = None
        self._kind = ""
        self._data: list[str] = []

    def feed(self, received: bytes) -> Iterator[SentEvent]:
        *lines, self._rest = _LINE_END.split(self._rest + received)
        for line in lines:
            event = self._take(line)
            if event is not None:
                yield event

    def _take(self, line: bytes) -> SentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id":
            self._id = value
        elif name == "event":
            self._kind = value
        return None

    def _dispatch(self) -> SentEvent | None:
        """What the blank line completed; without data and id it was only a sign of life."""
        data, self._data = "\n".join(self._data), []
        identity, self._id = self._id, None
        kind, self._kind = self._kind, ""
        return SentEvent(identity, data, kind) if data or identity is not None else None
