"""Enforces the limits of one bubblewrap run: by a control group where available, else by rlimits
and by inspecting the sandbox. The driver reports the mechanism that is actually in force.
"""

import os
import re
import resource
from contextlib import suppress
from pathlib import Path

from potluck.model.node import DISK_TMPFS, DISK_WATCHDOG
from potluck.model.task import EndReason
from potluck.provider.one_line import one_line
from potluck.provider.sandbox.bubblewrap.launch import ProcessRemains
from potluck.provider.sandbox.cgroup import Group, GroupLimits
from potluck.provider.sandbox.driver import Confinement, ResourceUse, RunOutcome
from potluck.provider.sandbox.hierarchy import Hierarchy
from potluck.provider.sandbox.inspect_run import SandboxView
from potluck.provider.sandbox.limits import LimitCheck, check_disk, check_memory, check_processes
from potluck.provider.sandbox.work_disk import CACHE_BYTES, WorkDisk, largest_file_bytes

_OPEN_FILES = 65_536
# Of 1000, so that tasks are killed first if the machine itself runs out of memory.
_OUT_OF_MEMORY_SCORE = 500
# bwrap's inner process counts towards the same limits, in a control group its outer one as well.
_OWN_PROCESSES = 1
_OUTER_PROCESSES = 1
# The rlimit is slightly above the watchdog's limit, so that the watchdog can see it exceeded.
_PROCESS_SLACK = 8


class Enclosure:
    """Limits of one run; its disk has to be set first. Call `remove` when all its processes are
    dead."""

    disk: WorkDisk

    def __init__(self, confinement: Confinement, hierarchy: Hierarchy | None) -> None:
        self._confinement = confinement
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", confinement.name)
        self._group = Group(hierarchy, name) if hierarchy else None

    def admit(self, outer: int) -> None:
        """Creates the control group and adds bwrap. Adding the first process may take the kernel
        20 ms, adding further ones next to nothing."""
        if self._group is not None:
            self._group.make(self._group_limits())
            self._group.add(outer)

    def admit_inner(self, pid: int) -> None:
        """Adds the inner process, which may have been forked before its parent was added."""
        if self._group is not None:
            self._group.add(pid)

    def restrict(self, pid: int) -> None:
        """Sets the rlimits of the process, which its children inherit."""
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_OUT_OF_MEMORY_SCORE))
        _lower(pid, resource.RLIMIT_CORE, 0)
        _lower(pid, resource.RLIMIT_NOFILE, _OPEN_FILES)
        if self.disk.mechanism == DISK_WATCHDOG:
            _lower(pid, resource.RLIMIT_FSIZE, largest_file_bytes(self._confinement))
        if self._needs_process_rlimit():
            _lower(pid, resource.RLIMIT_NPROC, self._most_processes() + _PROCESS_SLACK)

    def checks(self, inside: SandboxView) -> list[LimitCheck]:
        limit = self._confinement
        return [
            *self._memory_checks(inside),
            self._process_check(inside),
            check_disk(
                inside.work_is_full if self.disk.mechanism == DISK_TMPFS else self.disk.is_full,
                limit.disk_bytes,
            ),
        ]

    def cpu_seconds(self, remains: ProcessRemains, inside: SandboxView | None) -> float:
        """From the group, else the maximum of rusage, which misses killed children, and of our own
        observations."""
        counted = self._group.cpu_seconds() if self._group else None
        seen = inside.cpu_seconds if inside else 0.0
        return max(remains.cpu_seconds, seen) if counted is None else counted

    def memory_peak_bytes(self, remains: ProcessRemains, inside: SandboxView | None) -> int:
        counted = self._group.memory_peak_bytes() if self._group else None
        seen = inside.memory_peak_bytes if inside else 0
        return max(remains.memory_peak_bytes, seen) if counted is None else counted

    def spent(self, inside: SandboxView) -> ResourceUse:
        """Usage so far. Inspects the sandbox only for values that the group does not have."""
        cpu_seconds = self._group.cpu_seconds() if self._group else None
        peak_bytes = self._group.memory_peak_bytes() if self._group else None
        if cpu_seconds is None or peak_bytes is None:
            inside.glance()
        return ResourceUse(
            inside.cpu_seconds if cpu_seconds is None else cpu_seconds,
            inside.memory_peak_bytes if peak_bytes is None else peak_bytes,
        )

    async def remove(self) -> None:
        if self._group is not None:
            await self._group.remove()

    def _group_limits(self) -> GroupLimits:
        limit = self._confinement
        disk_bytes = limit.disk_bytes if self.disk.mechanism == DISK_TMPFS else CACHE_BYTES
        return GroupLimits(
            memory_bytes=limit.memory_bytes + disk_bytes,
            processes=self._most_processes() + _OWN_PROCESSES + _OUTER_PROCESSES,
            cores=limit.cores,
        )

    def _memory_checks(self, inside: SandboxView) -> list[LimitCheck]:
        limit_bytes = self._confinement.memory_bytes
        group = self._group
        if group is None or not group.limits_memory:
            return [check_memory(lambda: inside.uses_more_memory_than(limit_bytes), limit_bytes)]
        return [
            check_memory(group.was_out_of_memory, limit_bytes),
            check_memory(
                lambda: group.memory_bytes().beyond(inside.work_bytes()) > limit_bytes, limit_bytes
            ),
        ]

    def _process_check(self, inside: SandboxView) -> LimitCheck:
        limit = self._confinement.processes
        if self._group is not None and self._group.limits_processes:
            return check_processes(self._group.refused_a_process, limit)
        most = self._most_processes() + _OWN_PROCESSES
        return check_processes(lambda: inside.glance().threads > most, limit)

    def _most_processes(self) -> int:
        return self._confinement.processes + self._confinement.own_processes

    def _needs_process_rlimit(self) -> bool:
        if self._group is not None and self._group.limits_processes:
            return False
        return process_rlimit_works()


def process_rlimit_works() -> bool:
    """Whether the rlimit counts each run separately: by its own uid as root, or by its user
    namespace since Linux 5.14. Otherwise it would count all processes of the user."""
    return os.geteuid() == 0 or _kernel_version() >= (5, 14)


def sandbox_failed(detail: str) -> RunOutcome:
    return RunOutcome(EndReason.SANDBOX_FAILED, one_line(detail))


def _kernel_version() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int(re.sub(r"\D.*", "", minor))


def _lower(pid: int, which: int, value: int) -> None:
    """Never sets more than the provider's own hard limit."""
    _, hard = resource.prlimit(pid, which)
    ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ProcessLookupError):
        resource.prlimit(pid, which, (ceiling, ceiling))
