"""bwrap, started and held at a gate: all is set up inside, and the command has not begun.

bwrap reads one byte from `--block-fd` once everything is mounted, and then the whole filter from
`--seccomp`. The byte is there in advance, so the closing of that socket says that the setup is
done; the filter is a pipe that we fill when the limits are in place. Should this process die in
between, the filter is empty, the kernel refuses it, and bwrap ends.

The options travel in a memory file and the environment is empty, so that /proc/1 tells nothing.
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

from potluck.provider.sandbox import exec_env
from potluck.provider.sandbox.bubblewrap.root_filesystem import VARIABLES, InjectedFiles, Python
from potluck.provider.sandbox.driver import PYTHON, Confinement, wait_readable
from potluck.provider.sandbox.pidfd import HeldProcess, can_list_children, first_child

_ENV = "/usr/bin/env"
_BEGIN = "/etc/potluck-exec-env.py"
_VARIABLES = "/etc/potluck-variables"
# For the task and for the libraries of vendors. To the loader, the C library and setpriv they are
# nothing, whatever they say.
_UNHEEDED = {
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
    """What bwrap executes, its options for that, and the files that are read on the way."""

    command: list[str]
    options: list[str] = []
    files: dict[str, bytes] = {}


def make_launch_command(python: Python, confinement: Confinement) -> LaunchCommand:
    first, *rest = confinement.command
    program = python.path if first == PYTHON else first
    variables = {**VARIABLES, **python.environment, **confinement.environment}
    # A program that is not there is told by exec_env.py, in a sentence; the interpreter is there.
    if first == PYTHON and _are_unheeded(variables):
        options = [word for pair in variables.items() for word in ("--setenv", *pair)]
        # bwrap adds one of its own.
        return LaunchCommand([_ENV, "-u", "PWD", program, *rest], options)
    needed = [f"{name}={value}" for name, value in python.environment.items()]
    start = [_ENV, "-i", *needed, python.path, "-I", "-S"]
    files = {_BEGIN: Path(exec_env.__file__).read_bytes(), _VARIABLES: _told(variables)}
    return LaunchCommand([*start, _BEGIN, _VARIABLES, program, *rest], files=files)


def _are_unheeded(variables: dict[str, str]) -> bool:
    """Those that every run has are heeded, so they must say what we say."""
    others = {name: value for name, value in variables.items() if name not in _UNHEEDED}
    return others == VARIABLES


def _told(variables: dict[str, str]) -> bytes:
    lines = [f"{name}={value}\0" for name, value in variables.items()]
    return "".join(lines).encode("utf-8", "surrogateescape")


_STATUS_BYTES = 65_536
_ERROR_BYTES = 4_096
_GLANCE_SECONDS = 0.0005


class BwrapCommand(Struct, frozen=True):
    """What is executed, under which name, with which options (beyond those of the inlay)."""

    binary: Path
    name: str  # shown as the program's name, so that leftovers of this node are recognised
    options: Sequence[str]
    command: Sequence[str]


class SetupFailed(Exception):
    """bwrap ended before the command could begin; says what it said."""


class ProcessRemains(Struct, frozen=True):
    """What is known once all is dead: bwrap's wait status, and what its processes used."""

    wait_status: int = 0
    outer: resource.struct_rusage | None = None
    inner: resource.struct_rusage | None = None

    @property
    def cpu_seconds(self) -> float:
        return sum(used.ru_utime + used.ru_stime for used in (self.outer, self.inner) if used)

    @property
    def memory_peak_bytes(self) -> int:
        """Of the largest process. The outer one began as a copy of us, so it says nothing."""
        return self.inner.ru_maxrss * 1024 if self.inner else 0


class Launch:
    """One bwrap: its outer process, its inner one (pid 1 inside), and our ends of its pipes."""

    def __init__(self, words: BwrapCommand, inlay: InjectedFiles, stdin: int | None = None) -> None:
        self._closing = ExitStack()
        self._stdin = subprocess.DEVNULL if stdin is None else stdin
        self._status_text = b""
        self._filter: int | None = None
        self.inner: HeldProcess | None = None
        with ExitStack() as theirs, ExitStack() as on_failure:
            on_failure.callback(self.close)
            self.outer = self._spawn(words, inlay, theirs)
            on_failure.pop_all()

    def _spawn(self, words: BwrapCommand, inlay: InjectedFiles, theirs: ExitStack) -> HeldProcess:
        gate_theirs = self._open_gate(theirs)
        status_theirs = self._open_status(theirs)
        filter_theirs = self._open_filter(theirs)
        self.stdout, stdout_theirs = self._output_pipe(theirs)
        self.stderr, stderr_theirs = self._output_pipe(theirs)
        control = ["--block-fd", str(gate_theirs), "--json-status-fd", str(status_theirs)]
        control += ["--seccomp", str(filter_theirs)]
        options = inlay.hold(_separated([*control, *words.options, *inlay.options]))
        process = subprocess.Popen(
            [words.name, "--args", str(options), "--", *words.command],
            executable=words.binary,
            env={},
            cwd="/",
            umask=0o022,
            stdin=self._stdin,
            stdout=stdout_theirs,
            stderr=stderr_theirs,
            pass_fds=(gate_theirs, status_theirs, filter_theirs, *inlay.descriptors),
            start_new_session=True,
        )
        # From here on the process is waited for by pidfd and os.wait4, not by this object.
        process.returncode = 0
        return self._closing.enter_context(HeldProcess(process.pid))

    async def ready(self) -> HeldProcess:
        """Waits until the command is held at the gate; raises Setup when bwrap failed."""
        inner = await self.find_inner()
        await wait_readable(self._gate.fileno())
        if inner is None or not self._passed_the_byte():
            await self.outer.ended()
            raise SetupFailed(self._last_words())
        return inner

    async def find_inner(self) -> HeldProcess | None:
        """The inner process; None when bwrap failed so early that there is none."""
        if self.inner is None and (pid := await self._inner_pid()) is not None:
            try:
                self.inner = self._closing.enter_context(HeldProcess(pid))
            except ProcessLookupError:
                return None
        return self.inner

    def release(self, seccomp_filter: bytes) -> None:
        """Lets the command begin, under this filter."""
        assert self._filter is not None
        with suppress(BrokenPipeError):  # it died at the gate, and its end will tell
            assert os.write(self._filter, seccomp_filter) == len(seccomp_filter)
        self._close_filter()

    async def command(self) -> HeldProcess | None:
        """The command's process, once there is one; None when it has ended already."""
        assert self.inner is not None
        while self.outer.is_alive and can_list_children(self.inner.pid):
            pid = first_child(self.inner.pid)
            if pid is not None:
                with suppress(ProcessLookupError):
                    return HeldProcess(pid)
            await asyncio.sleep(_GLANCE_SECONDS)
        return None

    async def end(self) -> ProcessRemains:
        """Ends whatever still lives, and returns when nothing does."""
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
        """bwrap tells an exit code only when it got as far as executing the command."""
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

    def _passed_the_byte(self) -> bool:
        """A socket that is closed with the byte still in it is reset: bwrap died before."""
        try:
            return self._gate.recv(1) == b""
        except ConnectionResetError:
            return False

    def _last_words(self) -> str:
        os.set_blocking(self.stderr, False)
        try:
            said = os.read(self.stderr, _ERROR_BYTES).decode(errors="replace")
        except BlockingIOError:
            said = ""
        return said.strip() or "bwrap ended without a word"

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


def _separated(words: Sequence[str]) -> bytes:
    return b"\0".join(os.fsencode(word) for word in words)
