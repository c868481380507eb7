"""One run in bubblewrap, from the launch to the last trace of it."""

import asyncio
import os
import time
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from potluck.local.shielded import undisturbed
from potluck.model.task import EndReason
from potluck.provider.sandbox.bubblewrap.launch import (
    BwrapCommand,
    Launch,
    ProcessRemains,
    SetupFailed,
    make_launch_command,
)
from potluck.provider.sandbox.bubblewrap.root_filesystem import (
    HOSTNAME,
    InjectedFiles,
    Python,
    write_run_options,
)
from potluck.provider.sandbox.driver import (
    NO_ERRAND,
    Companion,
    Confinement,
    Errand,
    Mount,
    Output,
    RunOutcome,
    Started,
    StopRequest,
    WorkDirectory,
    cancel_all,
    outcome_of_shell_code,
    stage_inputs,
)
from potluck.provider.sandbox.enclosure import Enclosure, sandbox_failed
from potluck.provider.sandbox.hierarchy import Hierarchy
from potluck.provider.sandbox.identity import Identity, groups_of, new_identity
from potluck.provider.sandbox.inspect_run import SandboxView
from potluck.provider.sandbox.limits import (
    LimitCheck,
    RunHandles,
    check_time,
    first_exceeded,
    log_limit_outcome,
    supervise,
)
from potluck.provider.sandbox.output_pump import OutputPump
from potluck.provider.sandbox.pidfd import HeldProcess

_NAMESPACES = (
    "--unshare-pid",
    "--unshare-net",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--new-session",
    "--die-with-parent",
    "--hostname",
    HOSTNAME,
)


class BwrapSettings(Struct, frozen=True):
    """What a driver finds out or computes once, for all its runs. Containers have a Yard."""

    binary: Path
    name: str
    python: Python
    base_options: tuple[str, ...]
    seccomp_filter: bytes
    hierarchy: Hierarchy | None


class ConfinedRun:
    """Used once: `to_its_end`."""

    def __init__(
        self,
        premises: BwrapSettings,
        confinement: Confinement,
        output: Output,
        companion: Companion | None = None,
        recall: StopRequest | None = None,
        errand: Errand = NO_ERRAND,
    ) -> None:
        self._companion = companion
        self._recall = recall or StopRequest()
        self._errand = errand
        self._premises = premises
        self._confinement = confinement
        self._enclosure = Enclosure(confinement, premises.hierarchy)
        self._log = OutputPump(output, confinement.log_bytes)
        self._walls: list[LimitCheck] = []
        self._run_seconds = 0.0
        self._launch: Launch | None = None
        self._inside: SandboxView | None = None
        self._work: WorkDirectory | None = None  # once the code has been let go
        self._command: HeldProcess | None = None
        self._enclosing: asyncio.Task[None] | None = None
        self._pumping: asyncio.Task[None] | None = None

    async def to_its_end(self, started: Started) -> RunOutcome:
        try:
            touched = self._recall.said or await self._prepare() or await self._live(started)
            assert self._launch is not None or touched is not None
            remains = await undisturbed(self._launch.end()) if self._launch else ProcessRemains()
            await self._drain()
            outcome = self._outcome(touched, remains)
            if self._work is not None:
                await self._errand.after(self._work, outcome.reason)
            return self._measured(outcome, remains)
        finally:
            await undisturbed(self._clear())

    async def _prepare(self) -> RunOutcome | None:
        """Sets everything up, short of letting the command begin.

        The control group is entered while bwrap starts and mounts, since all of it takes a while.
        """
        try:
            identity = new_identity(groups_of(self._confinement.device_nodes))
            self._launch = _launch(self._premises, self._confinement, identity, self._companion)
            outer = self._launch.outer.pid
            entering = asyncio.create_task(asyncio.to_thread(self._enclosure.admit, outer))
            self._enclosing = entering
            if (early := await self._launch.find_inner()) is not None:
                self._enclosing = asyncio.create_task(self._follow(entering, early.pid))
            inner = await self._launch.ready()
            self._inside = SandboxView(inner.pid)
            self._enclosure.restrict(inner.pid)
            await asyncio.shield(self._enclosing)
            owner = identity.uid if identity.owns_files_of_host else None
            work = WorkDirectory(self._inside.work, owner)
            if (failed := await stage_inputs(self._errand, work, self._recall)) is not None:
                return failed
            self._work = work
        except (SetupFailed, OSError) as failure:
            return sandbox_failed(f"the sandbox could not be set up: {failure}")
        return None

    async def _follow(self, entering: asyncio.Task[None], inner: int) -> None:
        await entering
        await asyncio.to_thread(self._enclosure.admit_inner, inner)

    async def _live(self, started: Started) -> RunOutcome | None:
        assert self._launch is not None and self._inside is not None and self._work is not None
        began = time.monotonic()
        self._launch.release(self._premises.seccomp_filter)
        self._walls = self._enclosure.walls(self._inside)
        self._command = await self._launch.command()
        await started()
        self._pumping = asyncio.create_task(
            self._log.pump(self._launch.stdout, self._launch.stderr)
        )
        walls = [check_time(self._confinement.seconds), *self._walls]
        spent = partial(self._enclosure.spent, self._inside)
        guests = RunHandles(
            *(self._recall, self._inside.terminate, spent, self._work, self._errand),
            self._companion,
        )
        touched = await supervise(
            self._launch.outer.ended(), walls, self._log, self._pumping, guests
        )
        self._run_seconds = time.monotonic() - began
        return touched

    async def _drain(self) -> None:
        """Nobody writes any more, so what is in the pipes is the rest."""
        if self._pumping is not None:
            await self._pumping

    def _outcome(self, touched: RunOutcome | None, remains: ProcessRemains) -> RunOutcome:
        if touched is not None:
            return touched
        own = self._own_end(remains)
        late = log_limit_outcome(self._log) if self._log.is_cut else first_exceeded(self._walls)
        return replace(late, exit_code=own.exit_code) if late else own

    def _own_end(self, remains: ProcessRemains) -> RunOutcome:
        code = os.waitstatus_to_exitcode(remains.wait_status)
        if self._launch is None or not self._launch.command_was_executed():
            return RunOutcome(EndReason.SANDBOX_FAILED, f"bwrap ended with status {code}")
        return outcome_of_shell_code(code, self._command.wait_status() if self._command else None)

    def _measured(self, outcome: RunOutcome, remains: ProcessRemains) -> RunOutcome:
        return replace(
            outcome,
            run_seconds=self._run_seconds,
            cpu_seconds=self._enclosure.cpu_seconds(remains, self._inside),
            memory_peak_bytes=self._enclosure.memory_peak_bytes(remains, self._inside),
            log_bytes=self._log.total_bytes,
        )

    async def _clear(self) -> None:
        """Also after a cancellation or a failure half-way; then the rest of the log is dropped."""
        if self._pumping is not None:
            await cancel_all(self._pumping)
        if self._enclosing is not None:
            await asyncio.gather(self._enclosing, return_exceptions=True)
        if self._launch is not None:
            await self._launch.end()
            self._launch.close()
        if self._command is not None:
            self._command.close()
        if self._inside is not None:
            self._inside.close()
        await self._enclosure.remove()


def _launch(
    premises: BwrapSettings,
    confinement: Confinement,
    identity: Identity,
    companion: Companion | None,
) -> Launch:
    _hand_over(confinement.mounts, identity)
    begun = make_launch_command(premises.python, confinement)
    inlay = InjectedFiles()
    try:
        for target, content in begun.files.items():
            inlay.put(target, content, "0444")
        write_run_options(inlay, confinement, identity.uid)
        words = BwrapCommand(
            binary=premises.binary,
            name=premises.name,
            options=(*_NAMESPACES, *identity.options, *begun.options, *premises.base_options),
            command=(*identity.words, *begun.command),
        )
        return Launch(words, inlay, companion.stdin if companion else None)
    finally:
        inlay.close()


def _hand_over(mounts: tuple[Mount, ...], identity: Identity) -> None:
    """What is mounted writable belongs to the run's uid from now on (the top of it only)."""
    if identity.owns_files_of_host:
        for mount in mounts:
            if mount.writable:
                os.chown(mount.source, identity.uid, identity.uid)
