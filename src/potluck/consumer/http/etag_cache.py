"""Answers that are asked for again and again: the server sends only what has changed since.

It names each answer by an ETag. Whoever has the bytes of that name is told so (304), and no more.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping

from msgspec import Struct

# Of one screen's questions; what was not asked for lately goes first.
_MOST = 16


class Answer(Struct, frozen=True):
    """An answer, and the name that the server gave it."""

    etag: str
    body: bytes


class Remembered:
    """The last answer to each path. Several threads may ask at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def known(self, path: str) -> Answer | None:
        """The answer that we have. Whoever asks holds on to it: it may be gone from here by the
        time that the server says that it is still the same.
        """
        with self._lock:
            known = self._answers.get(path)
            if known is not None:
                self._answers.move_to_end(path)
            return known

    def keep(self, path: str, headers: Mapping[str, str], body: bytes) -> None:
        etag = headers.get("ETag")
        with self._lock:
            self._answers.pop(path, None)
            if etag is not None:
                self._answers[path] = Answer(etag, body)
            while len(self._answers) > _MOST:
                self._answers.popitem(last=False)
