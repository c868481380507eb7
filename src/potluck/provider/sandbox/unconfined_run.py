"""The driver "none": a plain process, for the owner's own tasks on a machine without a sandbox.

It has its own directory and a clean environment, and a watchdog enforces the limits as far as
possible. It does not protect the machine from the task, and its report says so.
"""

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import psutil
from msgspec.structs import replace

from potluck.local.shielded import finish_despite_cancel
from potluck.model.node import SandboxReport
from potluck.model.task import EndReason
from potluck.provider.egress.relay import proxy_variables, relaying
from potluck.provider.sandbox.driver import (
    NO_HOOKS,
    PLAIN_KINDS,
    PYTHON,
    WORK,
    Confinement,
    Output,
    ResourceUse,
    RunHooks,
    RunOutcome,
    StopRequest,
    WorkDirectory,
    cancel_all,
    outcome_of_code,
    refuse_raw_network,
    stage_inputs,
)
from potluck.provider.sandbox.limits import (
    LimitCheck,
    RunHandles,
    check_disk,
    check_memory,
    check_processes,
    check_time,
    supervise,
)
from potluck.provider.sandbox.output_pump import OutputPump
from potluck.provider.sandbox.plain_directory import DirectoryGauge, remove_tree
from potluck.provider.sandbox.process_tree import ProcessTree, session_members

_WATCH_SECONDS = 0.2
# An escaped process may hold the pipes open; its output is not awaited longer than this.
_DRAIN_SECONDS = 1.0
_LEADER = ".leader.json"


class UnconfinedDriver:
    """Runs commands as the provider's own user, without isolation."""

    encloses_processes = False

    def __init__(self, state_directory: Path, node_name: str) -> None:
        del node_name  # the directory alone identifies this provider's leftovers
        self._directory = state_directory / "unconfined"

    async def probe(self) -> SandboxReport:
        return SandboxReport(
            driver="none",
            memory="watchdog",
            processes="watchdog",
            disk="watchdog",
            kinds=PLAIN_KINDS,
            takes_stdin=True,
            notes=("tasks run without a sandbox; only the owner's own tasks are accepted",),
        )

    async def run(
        self, confinement: Confinement, output: Output, hooks: RunHooks = NO_HOOKS
    ) -> RunOutcome:
        refuse_raw_network(confinement)
        self._directory.mkdir(parents=True, exist_ok=True)
        directory = Path(tempfile.mkdtemp(dir=self._directory))
        try:
            run = UnconfinedRun(directory, confinement, output, hooks)
            return await run.to_its_end()
        finally:
            await finish_despite_cancel(asyncio.to_thread(remove_tree, directory))

    def held_bytes(self) -> int:
        return 0  # not known; so less is offered meanwhile

    async def reap(self) -> None:
        for directory in self._directory.glob("*"):
            _end_leftovers(directory)
            await asyncio.to_thread(remove_tree, directory)


class UnconfinedRun:
    """A single run; call `to_its_end` once."""

    def __init__(
        self, directory: Path, confinement: Confinement, output: Output, hooks: RunHooks = NO_HOOKS
    ) -> None:
        self._hooks = hooks
        self._recall = hooks.recall or StopRequest()
        self._directory = directory
        self._work = directory / "work"
        self._confinement = confinement
        self._log = OutputPump(output)
        self._tree: ProcessTree | None = None
        self._began = time.monotonic()

    async def to_its_end(self) -> RunOutcome:
        if (stopped := self._recall.said) is not None:
            return self._measured(stopped)
        self._write_files()
        with ExitStack() as ours:
            work = WorkDirectory(os.open(self._work, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            ours.callback(os.close, work.descriptor)
            if (failed := await stage_inputs(self._hooks.errand, work, self._recall)) is not None:
                return self._measured(failed)
            async with self._relaying() as variables:
                with ExitStack() as theirs:
                    stdout, stdout_theirs = _pipe(ours, theirs)
                    stderr, stderr_theirs = _pipe(ours, theirs)
                    try:
                        stdin = self._stdin(theirs)
                        process = await self._spawn(stdin, stdout_theirs, stderr_theirs, variables)
                    except OSError as failure:
                        return self._measured(RunOutcome(EndReason.SANDBOX_FAILED, str(failure)))
                return await self._live(process, (stdout, stderr), work)

    @asynccontextmanager
    async def _relaying(self) -> AsyncIterator[dict[str, str]]:
        """The proxy on a port of this machine, since the run has no network of its own."""
        if self._confinement.proxy is None:
            yield {}
            return
        listener = socket.create_server(("127.0.0.1", 0))
        async with relaying(listener, self._confinement.proxy):
            yield proxy_variables(listener.getsockname()[1])

    async def _live(
        self, process: Process, streams: tuple[int, int], work: WorkDirectory
    ) -> RunOutcome:
        self._tree = ProcessTree(process.pid)
        pumping: asyncio.Task[None] | None = None
        try:
            self._remember(process.pid)
            await self._hooks.started()
            pumping = asyncio.create_task(self._log.pump(*streams))
            checks = self._checks(self._tree)
            handles = RunHandles(
                *(self._recall, self._tree.terminate, self._spent, work, self._hooks.errand),
                self._hooks.companion,
            )
            ended = _wait_for_exit(process)
            exceeded = await supervise(ended, checks, self._log, pumping, handles, _WATCH_SECONDS)
            await finish_despite_cancel(_kill(self._tree, process))
            await asyncio.wait([pumping], timeout=_DRAIN_SECONDS)
            outcome = self._outcome(exceeded, process)
            await self._hooks.errand.after(work, outcome.reason)
            return self._measured(outcome)
        finally:
            await finish_despite_cancel(_kill(self._tree, process))
            if pumping is not None:
                await cancel_all(pumping)

    def _spent(self) -> ResourceUse:
        assert self._tree is not None
        self._tree.glance()
        return ResourceUse(self._tree.cpu_seconds, self._tree.memory_peak_bytes)

    def _write_files(self) -> None:
        (self._work / ".tmp").mkdir(parents=True)
        for name, content in self._confinement.files.items():
            assert "/" not in name and name not in {"", ".", ".."}
            (self._work / name).write_bytes(content)
        for mount in self._confinement.mounts:
            if mount.target.startswith(f"{WORK}/"):
                path = self._work / mount.target.removeprefix(f"{WORK}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.symlink_to(mount.source)

    def _stdin(self, theirs: ExitStack) -> int:
        if self._hooks.companion is not None:
            return self._hooks.companion.stdin
        if self._confinement.stdin is None:
            return DEVNULL
        return theirs.enter_context(self._confinement.stdin.open("rb")).fileno()

    async def _spawn(
        self, stdin: int, stdout: int, stderr: int, variables: dict[str, str]
    ) -> Process:
        first, *rest = self._confinement.command
        program = self._interpreter() if first == PYTHON else self._outside(first)
        process = await asyncio.create_subprocess_exec(
            program,
            *map(self._outside, rest),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=self._work,
            env={**variables, **self._environment()},
            start_new_session=True,
        )
        self._began = time.monotonic()
        _lower_rlimits(process.pid, self._confinement.disk_bytes)
        return process

    def _interpreter(self) -> str:
        """The one that the provider's virtual environment is based on, in an empty environment, so
        that this system's packages cannot be imported."""
        base = Path(getattr(sys, "_base_executable", sys.executable))
        if self._confinement.shows_packages:
            return str(base)
        environment = self._directory / "environment"
        program = environment / "bin" / base.name
        program.parent.mkdir(parents=True, exist_ok=True)
        settings = f"home = {base.parent}\ninclude-system-site-packages = false\n"
        (environment / "pyvenv.cfg").write_text(settings)
        program.symlink_to(base)
        return str(program)

    def _environment(self) -> dict[str, str]:
        """Leaves out the provider's own variables, which include its token."""
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": str(self._work), "TMPDIR": str(self._work / ".tmp")}
        given = {
            name: self._outside(value) for name, value in self._confinement.environment.items()
        }
        return {**inherited, **own, **given}

    def _outside(self, word: str) -> str:
        """Translates a sandbox path to the host path, since nothing is mounted."""
        mounts = self._confinement.mounts
        sources = {m.target: m.source for m in mounts if not m.target.startswith(WORK)}
        for target, source in {**sources, WORK: self._work}.items():
            if word == target or word.startswith(f"{target}/"):
                return f"{source}{word.removeprefix(target)}"
        return word

    def _remember(self, pid: int) -> None:
        with suppress(psutil.Error):
            leader = {"pid": pid, "created": psutil.Process(pid).create_time()}
            (self._directory / _LEADER).write_text(json.dumps(leader))

    def _checks(self, tree: ProcessTree) -> list[LimitCheck]:
        limit = self._confinement
        most_processes = limit.processes + limit.own_processes
        return [
            check_time(limit.seconds),
            check_memory(
                lambda: tree.uses_more_memory_than(limit.memory_bytes), limit.memory_bytes
            ),
            check_processes(lambda: tree.thread_count() > most_processes, limit.processes),
            check_disk(DirectoryGauge(self._work, limit.disk_bytes).is_full, limit.disk_bytes),
        ]

    def _outcome(self, exceeded: RunOutcome | None, process: Process) -> RunOutcome:
        if exceeded is not None:
            return exceeded
        assert process.returncode is not None
        return outcome_of_code(process.returncode)

    def _measured(self, outcome: RunOutcome) -> RunOutcome:
        return replace(
            outcome,
            run_seconds=time.monotonic() - self._began,
            cpu_seconds=self._tree.cpu_seconds if self._tree else 0.0,
            memory_peak_bytes=self._tree.memory_peak_bytes if self._tree else 0,
            log_bytes=self._log.total_bytes,
        )


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    return reading, writing


async def _wait_for_exit(process: Process) -> None:
    await process.wait()


async def _kill(tree: ProcessTree, process: Process) -> None:
    tree.kill()
    await process.wait()


def _lower_rlimits(pid: int, disk_bytes: int) -> None:
    if sys.platform != "linux":
        return
    import resource

    with suppress(ProcessLookupError):
        for which, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, disk_bytes)):
            resource.prlimit(pid, which, (value, value))


def _end_leftovers(directory: Path) -> None:
    """Kills the session that an earlier process recorded, unless its pid has been reused."""
    with suppress(OSError, ValueError, psutil.Error):
        leader = json.loads((directory / _LEADER).read_text())
        if _is_pid_reused(leader["pid"], leader["created"]):
            return
        for process in session_members(leader["pid"]):
            process.kill()


def _is_pid_reused(pid: int, created: float) -> bool:
    return psutil.pid_exists(pid) and bool(psutil.Process(pid).create_time() != created)
