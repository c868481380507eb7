"""The log of a range: the output of its items, each under a title line.

An item that alone writes more than the task's log limit fails. The output of all items together is
kept up to the same limit; the rest is dropped with a mark, and fails no item.
"""

from collections.abc import Callable

from potluck.model.task import MIB, EndReason
from potluck.provider.attempt.mask import LogWriter
from potluck.provider.sandbox.driver import RunOutcome


class ItemLog:
    """Written to by one item at a time."""

    def __init__(self, log: LogWriter, limit_bytes: int) -> None:
        self._log = log
        self._limit_bytes = limit_bytes
        self._kept_bytes = 0
        self._item_bytes = 0
        self._item: int | None = None
        self._is_titled = True
        self._is_full = False
        self._over: Callable[[RunOutcome], None] = _ignore

    def begin(self, item: int, over: Callable[[RunOutcome], None] | None = None) -> None:
        """Assigns further output to this item; `over` is called if it writes too much."""
        self._item, self._over = item, over or _ignore
        self._item_bytes, self._is_titled = 0, False

    async def write(self, stream: str, data: bytes) -> None:
        self._item_bytes += len(data)
        if self._item_bytes > self._limit_bytes:
            self._over(RunOutcome(EndReason.LOG_LIMIT, f"it wrote more than {self._limit}"))
        kept = data[: self._limit_bytes - self._kept_bytes]
        self._kept_bytes += len(kept)
        if kept:
            await self._title()
            await self._log.write(stream, kept)
        if len(kept) < len(data) and not self._is_full:
            self._is_full = True
            await self._log.remark(f"the items wrote more than {self._limit}; the rest is dropped")

    async def _title(self) -> None:
        """Only for items that write anything."""
        if not self._is_titled:
            self._is_titled = True
            await self._log.remark(f"item {self._item}:")

    @property
    def _limit(self) -> str:
        return f"{self._limit_bytes / MIB:g} MiB of log"


def _ignore(_: RunOutcome) -> None:
    """Before the first item; also for an item with a sandbox, and so a limit, of its own."""
