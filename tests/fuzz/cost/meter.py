"""Processor time of a server's event loop, read from outside, and the speed of this machine."""

import time
from pathlib import Path

# A pause in which the loop used less than this is quiet: its own duties take a little.
_PAUSE_SECONDS = 0.02
_QUIET_SECONDS = 0.001
_LONGEST_SECONDS = 3.0
# What `speed_milliseconds` is on the machine for which the limits are meant.
USUAL_MILLISECONDS = 50.0


class LoopMeter:
    """The event loop runs in the main thread, whose id is that of the process."""

    def __init__(self, pid: int) -> None:
        self._own = Path(f"/proc/{pid}/task/{pid}/schedstat")
        self._all = Path(f"/proc/{pid}/task")

    def seconds(self) -> float:
        """Used by the main thread so far; exact while it waits."""
        return int(self._own.read_text().split()[0]) / 1e9

    def all_seconds(self) -> float:
        """Used by all threads that are alive."""
        return (
            sum(int((path / "schedstat").read_text().split()[0]) for path in self._all.iterdir())
            / 1e9
        )

    def wait_until_quiet(self) -> None:
        """What a request leaves to be done, such as planning, has been done then."""
        end = time.monotonic() + _LONGEST_SECONDS
        before = self.all_seconds()
        while time.monotonic() < end:
            time.sleep(_PAUSE_SECONDS)
            now = self.all_seconds()
            if now - before < _QUIET_SECONDS:
                return
            before = now


def speed_milliseconds(tries: int = 5) -> float:
    """The processor time of a fixed piece of plain Python: the best of a few tries."""
    return 1000 * min(_once() for _ in range(tries))


def _once() -> float:
    started = time.thread_time()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    return time.thread_time() - started
