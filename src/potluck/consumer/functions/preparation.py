"""What is made ready for sending by a thread of its own, for those who must not wait themselves.

One after the other, in the order in which it was put. The thread is made when it is needed, and
ends with the program whatever it is at.
"""

import threading
from collections import deque
from collections.abc import Callable


class Preparing:
    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_at_work = False
        self._is_begun = False
        self._is_closed = False

    def put(self, prepare: Callable[[], None]) -> None:
        """Called soon; it raises nothing."""
        with self._turn:
            self._waiting.append(prepare)
            self._turn.notify_all()
            if self._is_begun:
                return
            self._is_begun = True
        threading.Thread(target=self._run, name="potluck-prepare", daemon=True).start()

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until nothing is left; false if that was not so in time."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._waiting and not self._is_at_work, timeout)

    def close(self) -> None:
        """What was put before is still prepared: whoever waits for it is told that it is over."""
        with self._turn:
            self._is_closed = True
            self._turn.notify_all()

    def _run(self) -> None:
        while (prepare := self._next()) is not None:
            prepare()

    def _next(self) -> Callable[[], None] | None:
        with self._turn:
            self._is_at_work = False
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._waiting or self._is_closed)
            if not self._waiting:
                self._is_begun = False
                return None
            self._is_at_work = True
            return self._waiting.popleft()
