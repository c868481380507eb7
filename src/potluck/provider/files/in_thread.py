"""Runs work on a task's directory in a thread, which may outlive the run."""

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from potluck.local.detached_thread import run_in_daemon_thread
from potluck.provider.sandbox.driver import WorkDirectory

T = TypeVar("T")


async def run_in_thread(work: WorkDirectory, act: Callable[[WorkDirectory], T]) -> T:
    """Returns the result of `act`. Cancelling this does not stop the thread, so it has a
    descriptor of its own: the number of the run's may soon refer to another directory."""
    own = WorkDirectory(os.dup(work.descriptor), work.uid)

    def run() -> T:
        try:
            return act(own)
        finally:
            os.close(own.descriptor)

    return await asyncio.wrap_future(run_in_daemon_thread(run))
