"""The processes of an unconfined run, as far as they can be found.

A process that opens a new session and outlives its parent escapes. This is one reason why
unconfined runs are for the owner's own tasks only.
"""

import os
import signal
from contextlib import suppress

import psutil


class ProcessTree:
    """A session leader and its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: set[psutil.Process] = set()
        self.cpu_seconds = 0.0
        self.memory_peak_bytes = 0

    def thread_count(self) -> int:
        return sum(_threads(process) for process in self._processes())

    def uses_more_memory_than(self, limit_bytes: int) -> bool:
        """Takes the exact measure, which needs milliseconds, only if the rough one is over it."""
        if self.glance() <= limit_bytes:
            return False
        return sum(_own_bytes(process) for process in self._processes()) > limit_bytes

    def glance(self) -> int:
        """Returns the resident bytes; also updates `cpu_seconds` and `memory_peak_bytes`."""
        processes = self._processes()
        resident_bytes = sum(_resident_bytes(process) for process in processes)
        self.memory_peak_bytes = max(self.memory_peak_bytes, resident_bytes)
        self.cpu_seconds = max(self.cpu_seconds, sum(map(_cpu_seconds, processes)))
        return resident_bytes

    def terminate(self) -> None:
        """Sends SIGTERM to all processes; on Windows this kills them."""
        for process in self._processes():
            with suppress(psutil.Error):
                process.terminate()

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        for process in self._seen:
            with suppress(psutil.Error):
                process.kill()

    def _processes(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            leader = psutil.Process(self._pid)
            processes = [leader, *leader.children(recursive=True)]
            self._seen.update(processes)
            return processes
        return []


def session_members(leader_pid: int) -> list[psutil.Process]:
    """Processes of the session that this process leads."""
    return [process for process in psutil.process_iter() if _session(process.pid) == leader_pid]


def _session(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None


def _threads(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.num_threads())
    return 0


def _resident_bytes(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_info().rss)
    return 0


def _own_bytes(process: psutil.Process) -> int:
    """Counts shared pages proportionally, where the system reports that."""
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        return int(memory.pss if hasattr(memory, "pss") else memory.uss)
    return 0


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0
