"""Works in a task's directory in a thread, past a run that is cleared away meanwhile."""

import asyncio
import os
from collections.abc import Callable
from typing import TypeVar

from potluck.local.detached_thread import in_own_thread
from potluck.provider.sandbox.driver import WorkDirectory

T = TypeVar("T")


async def beside(work: WorkDirectory, act: Callable[[WorkDirectory], T]) -> T:
    """What `act` returns. Whoever cancels this does not stop the thread, which may go on for a
    moment in a directory that is nowhere any more.

    So it has a descriptor of its own: the number of the run's would soon be another directory's.
    """
    own = WorkDirectory(os.dup(work.descriptor), work.uid)

    def run() -> T:
        try:
            return act(own)
        finally:
            os.close(own.descriptor)

    return await asyncio.wrap_future(in_own_thread(run))
