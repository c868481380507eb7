"""The control group of one run: its limits, its resource usage, and its removal.

The kernel's memory limit covers memory plus disk, since pages of the work directory are charged to
the group as well; the watchdog enforces the limit for memory alone. Only controllers that the
hierarchy has are enforced; readings of missing ones are zero or None.
"""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from potluck.provider.sandbox.hierarchy import Hierarchy
from potluck.provider.sandbox.inspect_run import MemoryUse

_PERIOD_MICROSECONDS = 100_000
_REMOVE_SECONDS = 10.0
_FILE_BYTES = 65_536


class Dialect(Struct, frozen=True):
    """File names and keys that differ between the two versions."""

    memory_limit: tuple[str, ...]  # the later ones may be missing
    no_swap: tuple[str, ...]
    memory_own: str  # key of anonymous memory in memory.stat
    memory_shared: str
    oom_events: str
    memory_peak: str


_DIALECTS = {
    1: Dialect(
        memory_limit=("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
        no_swap=(),
        memory_own="total_rss",
        memory_shared="total_shmem",
        oom_events="memory.oom_control",
        memory_peak="memory.max_usage_in_bytes",
    ),
    2: Dialect(
        memory_limit=("memory.max",),
        no_swap=("memory.swap.max",),
        memory_own="anon",
        memory_shared="shmem",
        oom_events="memory.events",
        memory_peak="memory.peak",
    ),
}


class GroupLimits(Struct, frozen=True):
    memory_bytes: int
    processes: int
    cores: int


class Group:
    """One directory for each controller; version 2 has a single directory for all."""

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self._version = hierarchy.version
        self._dialect = _DIALECTS[hierarchy.version]
        self._directories = {
            controller: parent / f"{hierarchy.prefix}{name}"
            for controller, parent in hierarchy.parents.items()
        }

    def make(self, limits: GroupLimits) -> None:
        for directory in self._unique():
            directory.mkdir()
        self.limit(limits)

    def limit(self, limits: GroupLimits) -> None:
        for file in self._dialect.memory_limit:
            self._write("memory", file, limits.memory_bytes)
        for file in self._dialect.no_swap:
            self._write("memory", file, 0)
        self._write("pids", "pids.max", limits.processes)
        self._limit_cores(limits.cores)

    def add(self, pid: int) -> None:
        for directory in self._unique():
            (directory / "cgroup.procs").write_text(str(pid))

    @property
    def limits_processes(self) -> bool:
        return "pids" in self._directories

    @property
    def limits_memory(self) -> bool:
        return "memory" in self._directories

    def memory_bytes(self) -> MemoryUse:
        amounts = self._keyed("memory", "memory.stat")
        dialect = self._dialect
        return MemoryUse(amounts.get(dialect.memory_own, 0), amounts.get(dialect.memory_shared, 0))

    def was_out_of_memory(self) -> bool:
        return self._keyed("memory", self._dialect.oom_events).get("oom_kill", 0) > 0

    def refused_a_process(self) -> bool:
        return self._keyed("pids", "pids.events").get("max", 0) > 0

    def memory_peak_bytes(self) -> int | None:
        text = self._read("memory", self._dialect.memory_peak)
        return int(text) if text else None

    def cpu_seconds(self) -> float | None:
        if self._version == 1:
            text = self._read("cpuacct", "cpuacct.usage")
            return int(text) / 1e9 if text else None
        microseconds = self._keyed("cpu", "cpu.stat").get("usage_usec")
        return None if microseconds is None else microseconds / 1e6

    async def remove(self) -> None:
        """Kills remaining processes and removes the group; retries while the kernel is busy."""
        deadline = time.monotonic() + _REMOVE_SECONDS
        while not self._try_remove():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the control group {self._unique()[0]} cannot be removed")
            await asyncio.sleep(0.005)

    def _try_remove(self) -> bool:
        for directory in self._unique():
            if not directory.exists():
                continue
            _kill_members(directory)
            with suppress(OSError):
                directory.rmdir()
        return not any(directory.exists() for directory in self._unique())

    def _limit_cores(self, cores: int) -> None:
        quota = cores * _PERIOD_MICROSECONDS
        if self._version == 2:
            self._write("cpu", "cpu.max", f"{quota} {_PERIOD_MICROSECONDS}")
            return
        self._write("cpu", "cpu.cfs_period_us", _PERIOD_MICROSECONDS)
        self._write("cpu", "cpu.cfs_quota_us", quota)

    def _unique(self) -> list[Path]:
        return list(dict.fromkeys(self._directories.values()))

    def _write(self, controller: str, file: str, value: int | str) -> None:
        """Does nothing if the file is missing: swap is often not accounted."""
        if controller not in self._directories:
            return
        path = self._directories[controller] / file
        if path.exists():
            path.write_text(str(value))

    def _read(self, controller: str, file: str) -> str:
        """Reads directly, since this happens on every function call; such files are small."""
        if controller not in self._directories:
            return ""
        try:
            descriptor = os.open(f"{self._directories[controller]}/{file}", os.O_RDONLY)
        except FileNotFoundError:
            return ""
        try:
            return os.read(descriptor, _FILE_BYTES).decode()
        finally:
            os.close(descriptor)

    def _keyed(self, controller: str, file: str) -> dict[str, int]:
        lines = (line.split() for line in self._read(controller, file).splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}


async def remove_groups(hierarchy: Hierarchy) -> None:
    """Removes all groups that an earlier process of this node left behind."""
    for name in sorted(hierarchy.leftovers()):
        await Group(hierarchy, name).remove()


def _kill_members(directory: Path) -> None:
    kill_file = directory / "cgroup.kill"  # kills all members atomically; newer kernels only
    if kill_file.exists():
        kill_file.write_text("1")
        return
    for pid in (directory / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
