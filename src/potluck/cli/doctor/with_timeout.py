"""A timeout for calls that may hang."""

from collections.abc import Callable
from concurrent.futures import wait
from typing import TypeVar

from potluck.local.detached_thread import run_in_daemon_thread

T = TypeVar("T")


def call_with_timeout(seconds: float, call: Callable[[], T]) -> T:
    """Returns or raises as the call does; after a TimeoutError the call continues unobserved."""
    future = run_in_daemon_thread(call)
    wait([future], seconds)
    if not future.done():
        raise TimeoutError(f"no answer within {seconds:g} s")
    return future.result()
