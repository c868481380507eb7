"""Work that may hang, in a daemon thread of its own: no pool is blocked, no exit waits."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def run_in_daemon_thread(work: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # it cannot be cancelled

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001, raised by the future
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
