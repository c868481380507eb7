"""The walls around a run, and the watchdog that looks whether one was touched.

A wall is a question that costs little to ask. It is asked again and again while the run lives, and
once more when all is over, so that a run which touches a wall and ends at once is told so too.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import Struct

from potluck.model.task import MIB, EndReason
from potluck.provider.sandbox.driver import (
    Companion,
    Errand,
    ResourceUse,
    RunOutcome,
    StopRequest,
    View,
    WorkDirectory,
    cancel_all,
)
from potluck.provider.sandbox.output_pump import OutputPump

WATCH_SECONDS = 0.05


LimitCheck = Callable[[], RunOutcome | None]


class RunHandles(Struct, frozen=True):
    """Who else has a say in a run, besides its walls."""

    recall: StopRequest
    terminate: Callable[[], None]  # sends SIGTERM to every process of the run
    spent: Callable[[], ResourceUse]
    work: WorkDirectory
    errand: Errand
    companion: Companion | None = None


async def watch_limits(walls: Sequence[LimitCheck], every_seconds: float) -> RunOutcome:
    """Returns as soon as a wall is touched."""
    while True:
        touched = first_exceeded(walls)
        if touched is not None:
            return touched
        await asyncio.sleep(every_seconds)


def first_exceeded(walls: Sequence[LimitCheck]) -> RunOutcome | None:
    return next((touched for wall in walls if (touched := wall()) is not None), None)


def check_time(seconds: float) -> LimitCheck:
    """Counts from now on."""
    deadline = time.monotonic() + seconds
    touched = RunOutcome(EndReason.TIME_LIMIT, f"it ran longer than its {seconds:g} s")
    return lambda: touched if time.monotonic() >= deadline else None


def check_memory(is_over: Callable[[], bool], limit_bytes: int) -> LimitCheck:
    touched = RunOutcome(
        EndReason.MEMORY_LIMIT, f"it used more than its {limit_bytes / MIB:.0f} MiB of memory"
    )
    return lambda: touched if is_over() else None


def check_processes(is_over: Callable[[], bool], limit: int) -> LimitCheck:
    touched = RunOutcome(EndReason.PROCESS_LIMIT, f"it started more than its {limit} processes")
    return lambda: touched if is_over() else None


def check_disk(is_full: Callable[[], bool], limit_bytes: int) -> LimitCheck:
    touched = RunOutcome(EndReason.DISK_LIMIT, f"it filled its {limit_bytes / MIB:.0f} MiB of disk")
    return lambda: touched if is_full() else None


async def supervise(
    ended: Coroutine[Any, Any, None],
    walls: Sequence[LimitCheck],
    log: OutputPump,
    pumping: asyncio.Task[None],
    guests: RunHandles,
    watch_seconds: float = WATCH_SECONDS,
) -> RunOutcome | None:
    """Returns the wall that was touched, or None when the command has ended by itself.

    One that was recalled never ends by itself: its exit status may be no more than its answer to
    the signal. `pumping` stays with the caller, who lets it read the rest once everything is dead.
    """
    touched = await _until_over(ended, walls, log, pumping, guests, watch_seconds)
    return guests.recall.said or touched


async def _until_over(
    ended: Coroutine[Any, Any, None],
    walls: Sequence[LimitCheck],
    log: OutputPump,
    pumping: asyncio.Task[None],
    guests: RunHandles,
    watch_seconds: float,
) -> RunOutcome | None:
    ending, watching = (
        asyncio.create_task(ended),
        asyncio.create_task(watch_limits(walls, watch_seconds)),
    )
    view = View(lambda: first_exceeded(walls), log.drained, guests.spent, guests.work)
    talking = asyncio.create_task(_talk(guests.companion, view))
    attending = asyncio.create_task(_attend(guests))
    recalling = asyncio.create_task(_say_farewell(guests))
    awaited: set[asyncio.Task[Any]] = {ending, watching, pumping, talking, attending, recalling}
    try:
        while not any(each.done() for each in (ending, watching, recalling)):
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if pumping.done():
                pumping.result()  # a receiver that fails ends the run
                if log.is_cut:
                    return log_limit_outcome(log)
            if talking.done() and (said := talking.result()) is not None:
                return said
            if attending.done():
                attending.result()  # a mistake of ours is not passed over
            awaited -= {each for each in (pumping, talking, attending) if each.done()}
        return watching.result() if watching.done() else None
    finally:
        await cancel_all(ending, watching, talking, attending, recalling)


async def _talk(companion: Companion | None, view: View) -> RunOutcome | None:
    return None if companion is None else await companion.talk(view)


async def _attend(guests: RunHandles) -> None:
    await guests.errand.during(guests.work)


async def _say_farewell(guests: RunHandles) -> None:
    """Returns when the grace is over, which begins with the wish."""
    await guests.recall.asked()
    guests.terminate()
    await guests.recall.grace_over()


def log_limit_outcome(log: OutputPump) -> RunOutcome:
    return RunOutcome(EndReason.LOG_LIMIT, log.cut_sentence)
