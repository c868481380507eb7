"""The walls around a run, and the watchdog that looks whether one was touched.

A wall is a question that costs little to ask. It is asked again and again while the run lives, and
once more when all is over, so that a run which touches a wall and ends at once is told so too.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from potluck.model.task import MIB, EndReason

WATCH_SECONDS = 0.05


class Touched(Struct, frozen=True):
    """Which wall, and a sentence for the owner of the task."""

    reason: EndReason
    detail: str


Wall = Callable[[], Touched | None]


async def watch(walls: Sequence[Wall], every_seconds: float) -> Touched:
    """Returns as soon as a wall is touched."""
    while True:
        touched = first_touched(walls)
        if touched is not None:
            return touched
        await asyncio.sleep(every_seconds)


def first_touched(walls: Sequence[Wall]) -> Touched | None:
    return next((touched for wall in walls if (touched := wall()) is not None), None)


def time_wall(seconds: float) -> Wall:
    """Counts from now on."""
    deadline = time.monotonic() + seconds
    touched = Touched(EndReason.TIME_LIMIT, f"it ran longer than its {seconds:g} s")
    return lambda: touched if time.monotonic() >= deadline else None


def memory_wall(is_over: Callable[[], bool], limit_bytes: int) -> Wall:
    touched = Touched(
        EndReason.MEMORY_LIMIT, f"it used more than its {limit_bytes / MIB:.0f} MiB of memory"
    )
    return lambda: touched if is_over() else None


def process_wall(is_over: Callable[[], bool], limit: int) -> Wall:
    touched = Touched(EndReason.PROCESS_LIMIT, f"it started more than its {limit} processes")
    return lambda: touched if is_over() else None


def disk_wall(is_full: Callable[[], bool], limit_bytes: int) -> Wall:
    touched = Touched(EndReason.DISK_LIMIT, f"it filled its {limit_bytes / MIB:.0f} MiB of disk")
    return lambda: touched if is_full() else None
