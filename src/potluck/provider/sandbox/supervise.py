"""From the start of the command to its end: whichever comes first of its own end and a wall."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from potluck.model.task import EndReason
from potluck.provider.sandbox.cancellation import drop
from potluck.provider.sandbox.log import Log
from potluck.provider.sandbox.wall import WATCH_SECONDS, Touched, Wall, watch


async def supervise(
    ended: Coroutine[Any, Any, None],
    walls: Sequence[Wall],
    log: Log,
    pumping: asyncio.Task[None],
    watch_seconds: float = WATCH_SECONDS,
) -> Touched | None:
    """Returns the wall that was touched, or None when the command has ended by itself.

    `pumping` stays with the caller, who lets it read the rest once everything is dead.
    """
    ending, watching = asyncio.create_task(ended), asyncio.create_task(watch(walls, watch_seconds))
    awaited: set[asyncio.Task[Any]] = {ending, watching, pumping}
    try:
        while not ending.done() and not watching.done():
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if pumping.done():
                pumping.result()  # a receiver that fails ends the run
                if log.is_cut:
                    return log_limit(log)
                awaited.discard(pumping)
        return watching.result() if watching.done() else None
    finally:
        await drop(ending, watching)


def log_limit(log: Log) -> Touched:
    return Touched(EndReason.LOG_LIMIT, log.cut_sentence)
