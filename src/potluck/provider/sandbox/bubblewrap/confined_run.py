"""One run in bubblewrap, from its launch to its cleanup."""

import asyncio
import os
import signal
import socket
import time
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from potluck.local.shielded import finish_despite_cancel
from potluck.model.node import DISK_TMPFS
from potluck.model.task import EndReason
from potluck.provider.egress.raw.relay_process import RelayProcess, start_relay
from potluck.provider.egress.relay import relay_received
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
from potluck.provider.sandbox.disk_image import ImageFailed
from potluck.provider.sandbox.driver import (
    NO_HOOKS,
    Companion,
    Confinement,
    Mount,
    Output,
    RunHooks,
    RunOutcome,
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
    check_disk,
    check_time,
    first_exceeded,
    supervise,
)
from potluck.provider.sandbox.output_pump import OutputPump
from potluck.provider.sandbox.pidfd import HeldProcess
from potluck.provider.sandbox.work_disk import WorkDisk, WorkDisks

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
    """What a driver determines once for all its runs; containers have ContainerSettings."""

    binary: Path
    name: str
    python: Python
    base_options: tuple[str, ...]
    seccomp_filter: bytes
    hierarchy: Hierarchy | None
    disks: WorkDisks


class ConfinedRun:
    """A single run; call `to_its_end` once."""

    def __init__(
        self,
        settings: BwrapSettings,
        confinement: Confinement,
        output: Output,
        hooks: RunHooks = NO_HOOKS,
    ) -> None:
        self._hooks = hooks
        self._recall = hooks.recall or StopRequest()
        self._settings = settings
        self._confinement = confinement
        self._enclosure = Enclosure(confinement, settings.hierarchy)
        self._disk: WorkDisk | None = None
        self._log = OutputPump(output)
        self._checks: list[LimitCheck] = []
        self._run_seconds = 0.0
        self._launch: Launch | None = None
        self._inside: SandboxView | None = None
        self._work: WorkDirectory | None = None  # set once the command may start
        self._command: HeldProcess | None = None
        self._enclosing: asyncio.Task[None] | None = None
        self._pumping: asyncio.Task[None] | None = None
        self._relaying: asyncio.Task[None] | None = None
        self._packets: RelayProcess | None = None

    async def to_its_end(self) -> RunOutcome:
        try:
            exceeded = self._recall.said or await self._prepare() or await self._live()
            assert self._launch is not None or exceeded is not None
            remains = (
                await finish_despite_cancel(self._launch.end())
                if self._launch
                else ProcessRemains()
            )
            await self._drain()
            outcome = self._outcome(exceeded, remains)
            if self._work is not None:
                await self._hooks.errand.after(self._work, outcome.reason)
            return self._measured(outcome, remains)
        finally:
            await finish_despite_cancel(self._clear())

    async def _prepare(self) -> RunOutcome | None:
        """Sets everything up except for starting the command.

        The control group is created while bwrap starts and mounts, since both take a while.
        """
        try:
            identity = new_identity(groups_of(self._confinement.device_nodes))
            self._disk = await self._settings.disks.take(self._confinement)
            self._enclosure.disk = self._disk
            parts = (self._confinement, self._disk, identity, self._hooks.companion)
            self._launch = _launch(self._settings, *parts, self._open_relay())
            outer = self._launch.outer.pid
            entering = asyncio.create_task(asyncio.to_thread(self._enclosure.admit, outer))
            self._enclosing = entering
            if (early := await self._launch.find_inner()) is not None:
                self._enclosing = asyncio.create_task(self._admit_inner(entering, early.pid))
            inner = await self._launch.ready()
            is_in_memory = self._disk.mechanism == DISK_TMPFS
            self._inside = SandboxView(inner.pid, has_work_in_memory=is_in_memory)
            self._enclosure.restrict(inner.pid)
            await asyncio.gather(
                asyncio.shield(self._enclosing), asyncio.to_thread(self._disk.detach)
            )
            owner = identity.uid if identity.owns_files_of_host else None
            work = WorkDirectory(self._inside.work, owner)
            if self._confinement.raw_network is not None:
                self._packets = await start_relay(self._confinement.raw_network, inner.pid)
            if (failed := await stage_inputs(self._hooks.errand, work, self._recall)) is not None:
                return failed
            self._work = work
        except (SetupFailed, ImageFailed, OSError) as failure:
            return sandbox_failed(f"the sandbox could not be set up: {failure}")
        return None

    def _open_relay(self) -> int | None:
        """Serves the listener that the command's start sends; returns its descriptor for that."""
        if self._confinement.proxy is None:
            return None
        ours, theirs = socket.socketpair()
        self._relaying = asyncio.create_task(relay_received(ours, self._confinement.proxy))
        return theirs.detach()

    async def _admit_inner(self, entering: asyncio.Task[None], inner: int) -> None:
        await entering
        await asyncio.to_thread(self._enclosure.admit_inner, inner)

    async def _live(self) -> RunOutcome | None:
        assert self._launch is not None and self._inside is not None and self._work is not None
        began = time.monotonic()
        self._launch.release(self._settings.seccomp_filter)
        self._checks = self._enclosure.checks(self._inside)
        self._command = await self._launch.command()
        await self._hooks.started()
        self._pumping = asyncio.create_task(
            self._log.pump(self._launch.stdout, self._launch.stderr)
        )
        checks = [check_time(self._confinement.seconds), *self._checks]
        spent = partial(self._enclosure.spent, self._inside)
        handles = RunHandles(
            *(self._recall, self._inside.terminate, spent, self._work, self._hooks.errand),
            self._hooks.companion,
        )
        exceeded = await supervise(
            self._launch.outer.ended(), checks, self._log, self._pumping, handles
        )
        self._run_seconds = time.monotonic() - began
        return exceeded

    async def _drain(self) -> None:
        """Reads the rest from the pipes; no process writes any more."""
        if self._pumping is not None:
            await self._pumping
        if self._disk is not None:
            await asyncio.to_thread(self._disk.measure)

    def _outcome(self, exceeded: RunOutcome | None, remains: ProcessRemains) -> RunOutcome:
        if exceeded is not None:
            return exceeded
        own = self._own_end(remains)
        late = first_exceeded(self._checks) or self._too_large_file(own)
        return replace(late, exit_code=own.exit_code) if late else own

    def _own_end(self, remains: ProcessRemains) -> RunOutcome:
        code = os.waitstatus_to_exitcode(remains.wait_status)
        if self._launch is None or not self._launch.command_was_executed():
            return RunOutcome(EndReason.SANDBOX_FAILED, f"bwrap ended with status {code}")
        return outcome_of_shell_code(code, self._command.wait_status() if self._command else None)

    def _too_large_file(self, own: RunOutcome) -> RunOutcome | None:
        """The kernel's signal for a file that exceeds the limit of a watched directory."""
        if own.exit_code != -signal.SIGXFSZ:
            return None
        return check_disk(lambda: True, self._confinement.disk_bytes)()

    def _measured(self, outcome: RunOutcome, remains: ProcessRemains) -> RunOutcome:
        return replace(
            outcome,
            run_seconds=self._run_seconds,
            cpu_seconds=self._enclosure.cpu_seconds(remains, self._inside),
            memory_peak_bytes=self._enclosure.memory_peak_bytes(remains, self._inside),
            log_bytes=self._log.total_bytes,
        )

    async def _clear(self) -> None:
        """Also after a cancellation or failure; then the rest of the log is dropped."""
        if self._pumping is not None:
            await cancel_all(self._pumping)
        if self._relaying is not None:
            await cancel_all(self._relaying)
        if self._enclosing is not None:
            await asyncio.gather(self._enclosing, return_exceptions=True)
        if self._launch is not None:
            await self._launch.end()
            self._launch.close()
        if self._packets is not None:
            await self._packets.end()
        if self._command is not None:
            self._command.close()
        if self._inside is not None:
            self._inside.close()
        await self._enclosure.remove()
        if self._disk is not None:
            await self._settings.disks.give_back(self._disk)


def _launch(
    settings: BwrapSettings,
    confinement: Confinement,
    disk: WorkDisk,
    identity: Identity,
    companion: Companion | None,
    proxy_end: int | None,
) -> Launch:
    injected = InjectedFiles()
    try:
        if proxy_end is not None:
            injected.descriptors.append(proxy_end)
        _hand_over(confinement.mounts, identity)
        command = make_launch_command(settings.python, confinement, proxy_end)
        for target, content in command.files.items():
            injected.put(target, content, "0444")
        write_run_options(injected, settings.python, confinement, disk.source, identity.uid)
        words = BwrapCommand(
            binary=settings.binary,
            name=settings.name,
            options=(*_NAMESPACES, *identity.options, *command.options, *settings.base_options),
            command=(*identity.words, *command.command),
        )
        return Launch(words, injected, companion.stdin if companion else None)
    finally:
        injected.close()


def _hand_over(mounts: tuple[Mount, ...], identity: Identity) -> None:
    """Changes the owner of writable mounts to the run's uid (not recursively)."""
    if identity.owns_files_of_host:
        for mount in mounts:
            if mount.writable:
                os.chown(mount.source, identity.uid, identity.uid)
