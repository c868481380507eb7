"""The limits of a run, and the watchdog that checks them.

A limit check is cheap. It runs periodically during the run and once more after it, so that a run
which exceeds a limit and exits immediately is reported as well.
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
    RunView,
    StopRequest,
    WorkDirectory,
    cancel_all,
)
from potluck.provider.sandbox.output_pump import OutputPump

WATCH_SECONDS = 0.05

LimitCheck = Callable[[], RunOutcome | None]


class RunHandles(Struct, frozen=True):
    """What `supervise` needs of a run besides its limits."""

    recall: StopRequest
    terminate: Callable[[], None]  # sends SIGTERM to every process of the run
    spent: Callable[[], ResourceUse]
    work: WorkDirectory
    errand: Errand
    companion: Companion | None = None


async def watch_limits(checks: Sequence[LimitCheck], every_seconds: float) -> RunOutcome:
    """Returns as soon as a limit is exceeded."""
    while True:
        exceeded = first_exceeded(checks)
        if exceeded is not None:
            return exceeded
        await asyncio.sleep(every_seconds)


def first_exceeded(checks: Sequence[LimitCheck]) -> RunOutcome | None:
    return next((exceeded for check in checks if (exceeded := check()) is not None), None)


def check_time(seconds: float) -> LimitCheck:
    """The time starts now."""
    deadline = time.monotonic() + seconds
    exceeded = RunOutcome(EndReason.TIME_LIMIT, f"it ran longer than its {seconds:g} s")
    return lambda: exceeded if time.monotonic() >= deadline else None


def check_memory(is_over: Callable[[], bool], limit_bytes: int) -> LimitCheck:
    exceeded = RunOutcome(
        EndReason.MEMORY_LIMIT, f"it used more than its {limit_bytes / MIB:.0f} MiB of memory"
    )
    return lambda: exceeded if is_over() else None


def check_processes(is_over: Callable[[], bool], limit: int) -> LimitCheck:
    exceeded = RunOutcome(EndReason.PROCESS_LIMIT, f"it started more than its {limit} processes")
    return lambda: exceeded if is_over() else None


def check_disk(is_full: Callable[[], bool], limit_bytes: int) -> LimitCheck:
    exceeded = RunOutcome(
        EndReason.DISK_LIMIT, f"it filled its {limit_bytes / MIB:.0f} MiB of disk"
    )
    return lambda: exceeded if is_full() else None


async def supervise(
    ended: Coroutine[Any, Any, None],
    checks: Sequence[LimitCheck],
    log: OutputPump,
    pumping: asyncio.Task[None],
    handles: RunHandles,
    watch_seconds: float = WATCH_SECONDS,
) -> RunOutcome | None:
    """Returns the outcome that ends the run, or None when the command has exited by itself.

    A stop request takes precedence over the exit status, which may only be the command's reaction
    to the signal. The caller keeps `pumping`, to read the rest once all processes are dead.
    """
    exceeded = await _wait_for_end(ended, checks, log, pumping, handles, watch_seconds)
    return handles.recall.said or exceeded


async def _wait_for_end(
    ended: Coroutine[Any, Any, None],
    checks: Sequence[LimitCheck],
    log: OutputPump,
    pumping: asyncio.Task[None],
    handles: RunHandles,
    watch_seconds: float,
) -> RunOutcome | None:
    ending, watching = (
        asyncio.create_task(ended),
        asyncio.create_task(watch_limits(checks, watch_seconds)),
    )
    view = RunView(lambda: first_exceeded(checks), log.drained, handles.spent, handles.work)
    talking = asyncio.create_task(_talk(handles.companion, view))
    attending = asyncio.create_task(handles.errand.during(handles.work))
    recalling = asyncio.create_task(_stop_gracefully(handles))
    awaited: set[asyncio.Task[Any]] = {ending, watching, pumping, talking, attending, recalling}
    try:
        while not any(task.done() for task in (ending, watching, recalling)):
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if pumping.done():
                pumping.result()  # an exception of the receiver ends the run
            if talking.done() and (outcome := talking.result()) is not None:
                return outcome
            if attending.done():
                attending.result()  # raises our own errors
            awaited -= {task for task in (pumping, talking, attending) if task.done()}
        return watching.result() if watching.done() else None
    finally:
        await cancel_all(ending, watching, talking, attending, recalling)


async def _talk(companion: Companion | None, view: RunView) -> RunOutcome | None:
    return None if companion is None else await companion.talk(view)


async def _stop_gracefully(handles: RunHandles) -> None:
    """Returns when the grace period, which starts with the stop request, is over."""
    await handles.recall.asked()
    handles.terminate()
    await handles.recall.grace_over()
