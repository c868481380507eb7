"""Time on the processor, for expectations that a busy machine should not change."""

import time
from pathlib import Path
from typing import Self

_NANOSECONDS = 1e9


class OwnTime:
    """How long a block takes, but for the time that it waits for a free processor.

    What it does is done by the caller's thread and the main threads of these processes, in turns.
    """

    seconds: float

    def __init__(self, *pids: int) -> None:
        self._threads = [Path("/proc/thread-self"), *(Path(f"/proc/{p}/task/{p}") for p in pids)]

    def __enter__(self) -> Self:
        self._began = time.monotonic() - self._queued_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._queued_seconds() - self._began

    def _queued_seconds(self) -> float:
        """How long they were ready to run while others had the processors, as Linux counts it."""
        counts = [(thread / "schedstat").read_text().split() for thread in self._threads]
        return sum(int(waited) for _, waited, _ in counts) / _NANOSECONDS
