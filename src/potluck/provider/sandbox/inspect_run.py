"""Inspects a running sandbox from outside, through its own /work, /dev/shm and /proc.

The directories are opened before the command starts, so they are the ones that we created, and
their sizes can be read even after the last process is dead. The sandbox's /proc lists its own
processes only.
"""

import os
import signal
from contextlib import suppress

from msgspec import Struct

from potluck.provider.sandbox.plain_directory import is_full, used_bytes

_INIT = "1"  # bwrap's own process
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
# Positions in /proc/<pid>/stat after the name, which may contain any character, even brackets.
_CPU_TICKS = slice(11, 15)  # of the process and of children that it has waited for
_THREADS, _RESIDENT_PAGES = 17, 21


class ProcessTotals(Struct, frozen=True):
    """Sums over all processes of a sandbox at one moment."""

    threads: int = 0  # as in the kernel's own process limits
    resident_bytes: int = 0  # shared pages count once for each process
    cpu_seconds: float = 0.0


class MemoryUse(Struct, frozen=True):
    """Anonymous memory, and shared memory such as tmpfs files."""

    own_bytes: int
    shared_bytes: int

    def beyond(self, work_bytes: int) -> int:
        """Everything but the files in the work directory, which count as disk."""
        return self.own_bytes + max(0, self.shared_bytes - work_bytes)


class SandboxView:
    """Inspects one sandbox. Call `close` when done."""

    def __init__(self, pid: int, *, has_work_in_memory: bool) -> None:
        self._has_work_in_memory = has_work_in_memory
        self._descriptors: list[int] = []
        self.cpu_seconds = 0.0
        self.memory_peak_bytes = 0
        try:
            self.work = self._open(f"/proc/{pid}/root/work")
            self._shared = self._open(f"/proc/{pid}/root/dev/shm")
            self._processes = self._open(f"/proc/{pid}/root/proc")
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def work_bytes(self) -> int:
        """What its files take of the memory."""
        return used_bytes(self.work) if self._has_work_in_memory else 0

    def work_is_full(self) -> bool:
        """Of a tmpfs, whose size is its limit."""
        return is_full(self.work)

    def glance(self) -> ProcessTotals:
        """Also updates `cpu_seconds` and `memory_peak_bytes`, which are reported at the end."""
        stats = self._stats()
        ticks = sum(int(word) for words in stats for word in words[_CPU_TICKS])
        totals = ProcessTotals(
            threads=sum(int(words[_THREADS]) for words in stats),
            resident_bytes=sum(int(words[_RESIDENT_PAGES]) for words in stats) * _PAGE_BYTES,
            cpu_seconds=ticks / _TICKS_PER_SECOND,
        )
        self.cpu_seconds = max(self.cpu_seconds, totals.cpu_seconds)
        self.memory_peak_bytes = max(self.memory_peak_bytes, totals.resident_bytes)
        return totals

    def uses_more_memory_than(self, limit_bytes: int) -> bool:
        """Takes the exact measure, which needs milliseconds, only if the rough one is over it."""
        if self.glance().resident_bytes + used_bytes(self._shared) <= limit_bytes:
            return False
        return self.memory_bytes().beyond(self.work_bytes()) > limit_bytes

    def memory_bytes(self) -> MemoryUse:
        """Counts each shared page once."""
        rollups = [self._rollup(pid) for pid in self._pids()]
        own = sum(rollup.get("Pss_Anon:", 0) for rollup in rollups)
        mapped = sum(rollup.get("Pss_Shmem:", 0) for rollup in rollups)
        in_files = self.work_bytes() + used_bytes(self._shared)
        return MemoryUse(own, max(mapped, in_files))

    def terminate(self) -> None:
        """Sends SIGTERM to every process of the run.

        The kernel accepts a /proc directory as a pidfd, so no signal reaches a reused pid.
        """
        for pid in self._pids():
            if pid != _INIT:
                with suppress(OSError):
                    self._signal(pid)

    def _signal(self, pid: str) -> None:
        descriptor = os.open(
            pid, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._processes
        )
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)

    def _open(self, path: str) -> int:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._descriptors.append(descriptor)
        return descriptor

    def _pids(self) -> list[str]:
        with suppress(OSError), os.scandir(self._processes) as entries:
            return [entry.name for entry in entries if entry.name.isdigit()]
        return []

    def _stats(self) -> list[list[str]]:
        texts = (self._read(f"{pid}/stat") for pid in self._pids())
        return [text.rpartition(")")[2].split() for text in texts if text]

    def _rollup(self, pid: str) -> dict[str, int]:
        lines = (line.split() for line in self._read(f"{pid}/smaps_rollup").splitlines())
        return {words[0]: int(words[1]) * 1024 for words in lines if words[-1] == "kB"}

    def _read(self, name: str) -> str:
        """Returns an empty string if the process has ended."""
        with suppress(OSError):
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
            with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
                return file.read()
        return ""
