"""Calls that may hang for longer than anybody wants to wait."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def bounded(seconds: float, call: Callable[[], T]) -> T:
    """What it returns or raises; TimeoutError if it does neither in time, and goes on unheeded."""
    answers: SimpleQueue[tuple[T | None, Exception | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except Exception as error:  # noqa: BLE001 - raised again where somebody waits for it
            answers.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]
