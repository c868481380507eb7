"""The processes of a run that nothing confines, as far as they can be found.

A process that makes a session of its own and lets its parent die gets away from this; that is one
reason why such a run is for its owner's tasks only.
"""

import os
import signal
from contextlib import suppress

import psutil


class ProcessTree:
    """A process that leads a session, and what descends from it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: set[psutil.Process] = set()
        self.cpu_seconds = 0.0
        self.memory_peak_bytes = 0

    def thread_count(self) -> int:
        return sum(_threads(process) for process in self._processes())

    def uses_more_memory_than(self, limit_bytes: int) -> bool:
        """Looks closer, which takes milliseconds, only when what is resident is over the limit."""
        if self.glance() <= limit_bytes:
            return False
        return sum(_own_bytes(process) for process in self._processes()) > limit_bytes

    def glance(self) -> int:
        """How much is resident. Also keeps what was seen, for the account at the end."""
        processes = self._processes()
        resident_bytes = sum(_resident_bytes(process) for process in processes)
        self.memory_peak_bytes = max(self.memory_peak_bytes, resident_bytes)
        self.cpu_seconds = max(self.cpu_seconds, sum(_cpu_seconds(each) for each in processes))
        return resident_bytes

    def terminate(self) -> None:
        """Asks all of them to end; on Windows there is no asking."""
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
            found = [leader, *leader.children(recursive=True)]
            self._seen.update(found)
            return found
        return []


def session_members(leader_pid: int) -> list[psutil.Process]:
    """Processes of the session that this process opened."""
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
    """Its share of what it shares with others, where the system tells that."""
    with suppress(psutil.Error):
        memory = process.memory_full_info()
        return int(memory.pss if hasattr(memory, "pss") else memory.uss)
    return 0


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0
