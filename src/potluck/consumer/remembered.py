"""Answers that are asked for again and again: the server sends only what has changed since.

It names each answer by an ETag. Whoever has the bytes of that name is told so (304), and no more.
"""

from collections.abc import Mapping

# Of one screen's questions; what was not asked for lately goes first.
_MOST = 16


class Remembered:
    """The last answer to each path."""

    def __init__(self) -> None:
        self._answers: dict[str, tuple[str, bytes]] = {}

    def condition(self, path: str) -> dict[str, str]:
        """The header that says which answer we have."""
        known = self._answers.get(path)
        return {} if known is None else {"If-None-Match": known[0]}

    def same(self, path: str) -> bytes:
        return self._answers[path][1]

    def keep(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        named = headers.get("ETag")
        self._answers.pop(path, None)
        if named is not None:
            self._answers[path] = (named, body)
        while len(self._answers) > _MOST:
            del self._answers[next(iter(self._answers))]
