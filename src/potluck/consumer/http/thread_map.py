"""One function over many values, in a few daemon threads."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import as_completed
from typing import TypeVar

from potluck.local.detached_thread import run_in_daemon_thread

T = TypeVar("T")
_MOST_THREADS = 8


def map_in_threads(
    act: Callable[[T], None], values: Iterable[T], most_threads: int = _MOST_THREADS
) -> None:
    """Calls `act` for each value; raises the first error. Then, or on Ctrl-C, starts no more."""
    waiting = deque(values)

    def work() -> None:
        while True:
            try:
                value = waiting.popleft()
            except IndexError:
                return
            act(value)

    try:
        threads = [run_in_daemon_thread(work) for _ in range(min(most_threads, len(waiting)))]
        for thread in as_completed(threads):
            thread.result()
    finally:
        waiting.clear()
