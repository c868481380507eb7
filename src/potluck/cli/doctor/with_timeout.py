"""Calls that may hang for longer than anybody wants to wait."""

from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from potluck.local.detached_thread import in_own_thread

T = TypeVar("T")


def bounded(seconds: float, call: Callable[[], T]) -> T:
    """What it returns or raises; TimeoutError if it does neither in time, and goes on unheeded."""
    answer = in_own_thread(call)
    wait([answer], seconds)
    if not answer.done():
        raise TimeoutError(f"no answer within {seconds:g} s")
    return answer.result()
