"""Large values, brought by a few threads: who waits for a small one does not wait for them.

The threads are made when they are needed, and end with the program whatever they are at.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

_MOST_THREADS = 4


class Fetches:
    def __init__(self) -> None:
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._is_closed = False

    def put(self, fetch: Callable[[], None]) -> None:
        """Called soon; it raises nothing. One that comes after the end has a thread of its own."""
        run = fetch
        with self._lock:
            if not self._is_closed:
                run = self._run
                self._waiting.put(fetch)
                if self._threads == _MOST_THREADS:
                    return
                self._threads += 1
        threading.Thread(target=run, name="potluck-fetch", daemon=True).start()

    def close(self) -> None:
        """What was put before is still brought."""
        with self._lock:
            self._is_closed = True
            for _ in range(_MOST_THREADS):
                self._waiting.put(None)

    def _run(self) -> None:
        while (fetch := self._waiting.get()) is not None:
            fetch()
