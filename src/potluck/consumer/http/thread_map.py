"""The same for many things, several at a time, by threads that keep nobody from leaving."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import as_completed
from typing import TypeVar

from potluck.local.detached_thread import in_own_thread

T = TypeVar("T")
_MOST_THREADS = 8


def at_once(act: Callable[[T], None], things: Iterable[T]) -> None:
    """Raises what first went wrong. Then, or interrupted, nothing new is begun."""
    waiting = deque(things)

    def work() -> None:
        while True:
            try:
                thing = waiting.popleft()
            except IndexError:
                return
            act(thing)

    try:
        threads = [in_own_thread(work) for _ in range(min(_MOST_THREADS, len(waiting)))]
        for ended in as_completed(threads):
            ended.result()
    finally:
        waiting.clear()
