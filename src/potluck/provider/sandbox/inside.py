"""A look into a running sandbox from outside, through its own /work, /dev/shm and /proc.

The directories are opened while the command is still held back, so they are the ones that we made,
and their sizes can be told even after the last process is dead. Listing the sandbox's /proc shows
its processes and nobody else's.
"""

import os
from contextlib import suppress

from msgspec import Struct

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Positions in /proc/<pid>/stat after the name, which may contain anything, brackets too.
_THREADS, _RESIDENT_PAGES = 17, 21


class Memory(Struct, frozen=True):
    """What is neither a file nor shared, and what is shared: tmpfs files and the like."""

    own_bytes: int
    shared_bytes: int

    def beyond(self, work_bytes: int) -> int:
        """What counts as memory: all but the files in the work directory, which are disk."""
        return self.own_bytes + max(0, self.shared_bytes - work_bytes)


class Inside:
    """The view into one sandbox. `close` when done."""

    def __init__(self, pid: int) -> None:
        self._descriptors: list[int] = []
        try:
            self._work = self._open(f"/proc/{pid}/root/work")
            self._shared = self._open(f"/proc/{pid}/root/dev/shm")
            self._processes = self._open(f"/proc/{pid}/root/proc")
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())

    def work_bytes(self) -> int:
        return _used_bytes(self._work)

    def work_is_full(self) -> bool:
        free = os.fstatvfs(self._work)
        return free.f_bavail == 0 or free.f_favail == 0

    def thread_count(self) -> int:
        """Processes and threads, as the kernel's own limits count them."""
        return sum(int(words[_THREADS]) for words in self._stats())

    def uses_more_memory_than(self, limit_bytes: int) -> bool:
        """Adds up what is resident, and looks closer only when that is over the limit.

        The closer look counts a page that several processes share once, but takes milliseconds.
        """
        resident = sum(int(words[_RESIDENT_PAGES]) for words in self._stats()) * _PAGE_BYTES
        if resident + _used_bytes(self._shared) <= limit_bytes:
            return False
        return self.memory_bytes().beyond(self.work_bytes()) > limit_bytes

    def memory_bytes(self) -> Memory:
        rollups = [self._rollup(pid) for pid in self._pids()]
        own = sum(rollup.get("Pss_Anon:", 0) for rollup in rollups)
        mapped = sum(rollup.get("Pss_Shmem:", 0) for rollup in rollups)
        in_files = self.work_bytes() + _used_bytes(self._shared)
        return Memory(own, max(mapped, in_files))

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
        """Empty for a process that is gone by now."""
        with suppress(OSError):
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
            with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
                return file.read()
        return ""


def _used_bytes(descriptor: int) -> int:
    space = os.fstatvfs(descriptor)
    return (space.f_blocks - space.f_bfree) * space.f_frsize
