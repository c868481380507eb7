"""Work that may hang: in a thread that takes no other's place, and that no exit waits for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_own_thread(work: Callable[[], T]) -> Future[T]:
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()  # it can not be cancelled any more

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001, told to whoever waits for it
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return answer
