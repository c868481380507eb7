"""The same for many things, several at a time, by threads that keep nobody from leaving."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
_MOST_THREADS = 8


def at_once(act: Callable[[T], None], things: Iterable[T]) -> None:
    """Raises what first went wrong. Then, or interrupted, nothing new is begun."""
    waiting = deque(things)
    ends: SimpleQueue[BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            while True:
                try:
                    thing = waiting.popleft()
                except IndexError:
                    break
                act(thing)
        except BaseException as error:  # noqa: BLE001 - raised again where somebody waits for it
            ends.put(error)
        else:
            ends.put(None)

    threads = [
        threading.Thread(target=work, daemon=True) for _ in range(min(_MOST_THREADS, len(waiting)))
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            if (error := ends.get()) is not None:
                raise error
    finally:
        waiting.clear()
