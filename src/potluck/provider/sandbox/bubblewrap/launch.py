"""Starts bwrap and holds it after the setup, before the command starts.

bwrap reads one byte from `--block-fd` once everything is mounted, and then the filter from
`--seccomp`. The byte is sent in advance, so bwrap closing that socket means that the setup is done;
the filter is a pipe that we fill when the limits are in place. If this process dies in between, the
filter is empty, the kernel rejects it, and bwrap exits.

Options are passed in a memory file and the environment is empty, so that /proc/1 reveals nothing.
Loaders obey some variables, and the steps before the command may run as root. So `exec_env.py` sets
variables as the command's user, which takes ten milliseconds. A script, or a program of the node's
system, whose variables are all harmless starts without it: bwrap sets them from its options.
"""

import asyncio
import json
import os
import resource
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from potluck.provider.egress.relay import PORT, proxy_variables
from potluck.provider.sandbox import exec_env
from potluck.provider.sandbox.bubblewrap.root_filesystem import (
    VARIABLES,
    InjectedFiles,
    Python,
    hidden_directories,
)
from potluck.provider.sandbox.driver import PYTHON, STDIN, Confinement, wait_readable
from potluck.provider.sandbox.pidfd import HeldProcess, can_list_children, first_child

_ENV = "/usr/bin/env"
_EXEC_ENV = "/etc/potluck-exec-env.py"
_VARIABLES = "/etc/potluck-variables"
_PATH = VARIABLES["PATH"].split(":")
_READ_AND_EXECUTE = 0o005  # by all users
_LONG_ARGUMENTS = 65_536
# Meant for the task and vendor libraries; the loader, the C library and setpriv ignore them.
_HARMLESS = {
    "POTLUCK_TASK_ID",
    "POTLUCK_ATTEMPT_ID",
    "POTLUCK_OUTPUT",
    "POTLUCK_CHECKPOINT",
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ONEAPI_DEVICE_SELECTOR",
}


class LaunchCommand(Struct, frozen=True):
    """What bwrap executes, with additional options and files."""

    command: list[str]
    options: list[str] = []
    files: dict[str, bytes] = {}


def make_launch_command(
    python: Python, confinement: Confinement, proxy_end: int | None = None
) -> LaunchCommand:
    """`proxy_end` is a descriptor through which the listener for the proxy is sent."""
    first, *rest = confinement.command
    program = python.path if first == PYTHON else first
    proxy = {} if proxy_end is None else proxy_variables()
    variables = {**VARIABLES, **python.environment, **proxy, **confinement.environment}
    # exec_env.py reports in a sentence why a program cannot be started.
    is_startable = first == PYTHON or _is_startable(first, rest)
    if is_startable and confinement.stdin is None and _are_harmless(variables):
        options = [word for pair in variables.items() for word in ("--setenv", *pair)]
        return LaunchCommand([program, *rest], options)
    needed = [f"{name}={value}" for name, value in python.environment.items()]
    start = [_ENV, "-i", *needed, python.path, "-I", "-S"]
    files = {_EXEC_ENV: Path(exec_env.__file__).read_bytes(), _VARIABLES: _encode(variables)}
    stdin = "" if confinement.stdin is None else STDIN
    listener = "" if proxy_end is None else f"{proxy_end}:{PORT}"
    words = [*start, _EXEC_ENV, _VARIABLES, stdin, listener, program, *rest]
    return LaunchCommand(words, files=files)


def _is_startable(program: str, arguments: Sequence[str]) -> bool:
    """Whether it is a program of the node's system that any user may execute. What cannot be said
    from outside is left to exec_env.py: files of the task, and very long arguments.
    """
    if sum(map(len, arguments)) > _LONG_ARGUMENTS:
        return False
    names = [program] if "/" in program else [f"{directory}/{program}" for directory in _PATH]
    executable = next((path for path in map(Path, names) if path.exists()), None)
    if executable is None or not executable.is_absolute() or executable.is_symlink():
        return False  # a link may lead through a directory that does not exist inside
    target = executable.resolve()
    is_shown = target.is_relative_to("/usr") and not any(
        map(target.is_relative_to, hidden_directories())
    )
    may = _READ_AND_EXECUTE
    return is_shown and target.is_file() and target.stat().st_mode & may == may


def _are_harmless(variables: dict[str, str]) -> bool:
    """Whether all other variables have our default values."""
    others = {name: value for name, value in variables.items() if name not in _HARMLESS}
    return others == VARIABLES


def _encode(variables: dict[str, str]) -> bytes:
    lines = [f"{name}={value}\0" for name, value in variables.items()]
    return "".join(lines).encode("utf-8", "surrogateescape")


_STATUS_BYTES = 65_536
_ERROR_BYTES = 4_096
_POLL_SECONDS = 0.0005


class BwrapCommand(Struct, frozen=True):
    """The bwrap invocation, without the options for injected files."""

    binary: Path
    name: str  # argv[0], by which `reap` finds leftovers of this node
    options: Sequence[str]
    command: Sequence[str]


class SetupFailed(Exception):
    """bwrap exited before the command could start; the message is bwrap's error output."""


class ProcessRemains(Struct, frozen=True):
    """bwrap's wait status and the resource usage of its processes, once all are dead."""

    wait_status: int = 0
    outer: resource.struct_rusage | None = None
    inner: resource.struct_rusage | None = None

    @property
    def cpu_seconds(self) -> float:
        return sum(used.ru_utime + used.ru_stime for used in (self.outer, self.inner) if used)

    @property
    def memory_peak_bytes(self) -> int:
        """Of the largest process, without the outer one, which started as a copy of us."""
        return self.inner.ru_maxrss * 1024 if self.inner else 0


class Launch:
    """One bwrap: its outer process, its inner one (pid 1 inside), and our ends of its pipes."""

    def __init__(
        self, words: BwrapCommand, injected: InjectedFiles, stdin: int | None = None
    ) -> None:
        self._closing = ExitStack()
        self._stdin = subprocess.DEVNULL if stdin is None else stdin
        self._status_text = b""
        self._filter: int | None = None
        self.inner: HeldProcess | None = None
        with ExitStack() as theirs, ExitStack() as on_failure:
            on_failure.callback(self.close)
            self.outer = self._spawn(words, injected, theirs)
            on_failure.pop_all()

    def _spawn(
        self, words: BwrapCommand, injected: InjectedFiles, theirs: ExitStack
    ) -> HeldProcess:
        gate_theirs = self._open_gate(theirs)
        status_theirs = self._open_status(theirs)
        filter_theirs = self._open_filter(theirs)
        self.stdout, stdout_theirs = self._output_pipe(theirs)
        self.stderr, stderr_theirs = self._output_pipe(theirs)
        control = ["--block-fd", str(gate_theirs), "--json-status-fd", str(status_theirs)]
        control += ["--seccomp", str(filter_theirs)]
        options = injected.hold(_join_options([*control, *words.options, *injected.options]))
        process = subprocess.Popen(
            [words.name, "--args", str(options), "--", *words.command],
            executable=words.binary,
            env={},
            cwd="/",
            umask=0o022,
            stdin=self._stdin,
            stdout=stdout_theirs,
            stderr=stderr_theirs,
            pass_fds=(gate_theirs, status_theirs, filter_theirs, *injected.descriptors),
            start_new_session=True,
        )
        # From here on the process is waited for by pidfd and os.wait4, not by this object.
        process.returncode = 0
        return self._closing.enter_context(HeldProcess(process.pid))

    async def ready(self) -> HeldProcess:
        """Waits until the setup is done; raises SetupFailed if bwrap failed."""
        inner = await self.find_inner()
        await wait_readable(self._gate.fileno())
        if inner is None or not self._has_read_byte():
            await self.outer.ended()
            raise SetupFailed(self._error_output())
        return inner

    async def find_inner(self) -> HeldProcess | None:
        """The inner process; None if bwrap failed before creating it."""
        if self.inner is None and (pid := await self._inner_pid()) is not None:
            try:
                self.inner = self._closing.enter_context(HeldProcess(pid))
            except ProcessLookupError:
                return None
        return self.inner

    def release(self, seccomp_filter: bytes) -> None:
        """Starts the command under this filter."""
        assert self._filter is not None
        with suppress(BrokenPipeError):  # bwrap has died; its exit is handled later
            assert os.write(self._filter, seccomp_filter) == len(seccomp_filter)
        self._close_filter()

    async def command(self) -> HeldProcess | None:
        """Waits for the command's process; None if it has already exited."""
        assert self.inner is not None
        while self.outer.is_alive and can_list_children(self.inner.pid):
            pid = first_child(self.inner.pid)
            if pid is not None:
                with suppress(ProcessLookupError):
                    return HeldProcess(pid)
            await asyncio.sleep(_POLL_SECONDS)
        return None

    async def end(self) -> ProcessRemains:
        """Kills all processes and returns when they are dead."""
        inner = await self.find_inner()
        if inner is not None:
            inner.kill()
        await self.outer.ended()
        status, outer_used = self.outer.reap() or (0, None)
        if inner is None:
            return ProcessRemains(status, outer_used)
        await inner.ended()
        _, inner_used = inner.reap() or (0, None)
        return ProcessRemains(status, outer_used, inner_used)

    def command_was_executed(self) -> bool:
        """bwrap reports an exit code only if it executed the command."""
        self._read_status()
        return b'"exit-code"' in self._status_text

    def close(self) -> None:
        self._close_filter()
        self._closing.close()

    def _close_filter(self) -> None:
        if self._filter is not None:
            os.close(self._filter)
            self._filter = None

    async def _inner_pid(self) -> int | None:
        while b"}" not in self._status_text:
            await wait_readable(self._status)
            if not self._read_status():
                return None
        first = self._status_text.split(b"}")[0] + b"}"
        return int(json.loads(first)["child-pid"])

    def _read_status(self) -> bytes:
        try:
            data = os.read(self._status, _STATUS_BYTES)
        except BlockingIOError:
            return b""
        self._status_text += data
        return data

    def _has_read_byte(self) -> bool:
        """False if bwrap died before reading the byte: then the socket is reset."""
        try:
            return self._gate.recv(1) == b""
        except ConnectionResetError:
            return False

    def _error_output(self) -> str:
        os.set_blocking(self.stderr, False)
        try:
            text = os.read(self.stderr, _ERROR_BYTES).decode(errors="replace")
        except BlockingIOError:
            text = ""
        return text.strip() or "bwrap exited without an error message"

    def _open_gate(self, theirs: ExitStack) -> int:
        ours, end = socket.socketpair()
        self._gate = self._closing.enter_context(ours)
        ours.send(b"x")
        return theirs.enter_context(end).fileno()

    def _open_status(self, theirs: ExitStack) -> int:
        self._status, end = os.pipe()
        self._closing.callback(os.close, self._status)
        theirs.callback(os.close, end)
        os.set_blocking(self._status, False)
        return end

    def _open_filter(self, theirs: ExitStack) -> int:
        end, self._filter = os.pipe()
        theirs.callback(os.close, end)
        return end

    def _output_pipe(self, theirs: ExitStack) -> tuple[int, int]:
        ours, end = os.pipe()
        self._closing.callback(os.close, ours)
        theirs.callback(os.close, end)
        return ours, end


def _join_options(words: Sequence[str]) -> bytes:
    return b"\0".join(os.fsencode(word) for word in words)
