"""The bytes that one sandbox may move over the network, both directions together."""

from collections.abc import Callable

import structlog

_log = structlog.get_logger(__name__)


def ignore() -> None:
    """A callback that does nothing."""


class ByteBudget:
    """`on_exhausted` is called once, when more than the total is requested; `count` is told of
    every change."""

    def __init__(
        self,
        total_bytes: int,
        on_exhausted: Callable[[], None] = ignore,
        count: Callable[[int], object] = bool,
    ) -> None:
        self._total_bytes = total_bytes
        self._on_exhausted = on_exhausted
        self._count = count
        self.spent_bytes = 0
        self.is_exhausted = False

    @property
    def left_bytes(self) -> int:
        return max(0, self._total_bytes - self.spent_bytes)

    def spend(self, size_bytes: int) -> int:
        """Counts bytes; returns how many of them may be moved."""
        granted = self.advance(size_bytes)
        if granted < size_bytes and not self.is_exhausted:
            self.is_exhausted = True
            _log.warning("egress.byte_limit", limit_bytes=self._total_bytes)
            self._on_exhausted()
        return granted

    def advance(self, size_bytes: int) -> int:
        """As `spend`, but for bytes that may never be moved: too little left is not an end."""
        granted = min(size_bytes, self.left_bytes)
        self.spent_bytes += granted
        self._count(granted)
        return granted

    def give_back(self, size_bytes: int) -> None:
        """Bytes of an advance that were not moved."""
        self.spent_bytes -= size_bytes
        self._count(-size_bytes)
