"""Finds and ends the processes of one cluster, without losing data.

A process belongs to the cluster if it is a postgres whose working directory is the cluster's, as
with all of PostgreSQL's processes. The pid file is not used: after a crash its pid may be reused.
"""

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil

_POLL_SECONDS = 0.02


def find_processes(data: Path) -> list[psutil.Process]:
    """All processes of this cluster, the postmaster first."""
    place = data.resolve()
    processes = [process for process in psutil.process_iter() if _works_in(process, place)]
    pids = {process.pid for process in processes}
    return sorted(processes, key=lambda process: _parent(process) in pids)


async def shut_down(
    processes: list[psutil.Process], fast_seconds: float, immediate_seconds: float
) -> None:
    """Ends them: smart, else fast, else by force."""
    postmaster = processes[:1]
    everything = [*processes, *_descendants(processes)]
    try:
        _signal(postmaster, signal.SIGINT)
        if not await _gone(everything, fast_seconds):
            _signal(postmaster, signal.SIGQUIT)
            await _gone(everything, immediate_seconds)
    finally:
        _signal([*everything, *_descendants(processes)], signal.SIGKILL)
        await _gone(everything, immediate_seconds)


def _is_alive(process: psutil.Process) -> bool:
    """Whether it runs and is no zombie: PostgreSQL would take a zombie's pid for a live owner."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _works_in(process: psutil.Process, place: Path) -> bool:
    try:
        return process.name() == "postgres" and Path(process.cwd()) == place
    except (psutil.Error, OSError):  # gone meanwhile, a zombie, or not accessible
        return False


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.Error:
        return 0


def _descendants(processes: list[psutil.Process]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in processes:
        with suppress(psutil.Error):
            found.extend(process.children(recursive=True))
    return found


def _signal(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


async def _gone(processes: list[psutil.Process], timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while any(_is_alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True
