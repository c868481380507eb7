"""The interface of every sandbox driver: what to run, its limits, and how it ended.

Also what all drivers share: waiting on descriptors, staging inputs, and outcomes of exit codes.
"""

import asyncio
import math
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from potluck.model.blob import Value
from potluck.model.error import SandboxUnavailable
from potluck.model.node import SandboxReport
from potluck.model.task import MIB, EndReason
from potluck.model.terms import TaskKind


async def wait_readable(descriptor: int) -> None:
    """Returns when a read would not block: data, end of file or, for a pidfd, process exit."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def wait_writable(descriptor: int) -> None:
    """Returns when a write would not block, or the other end is closed."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


async def cancel_all(*tasks: asyncio.Task[Any]) -> None:
    """Cancels the tasks and returns when all of them have finished."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


T = TypeVar("T")

# Paths inside every sandbox: the work directory, the files that are returned, the files that
# survive the attempt, and the prepared environment.
WORK = "/work"
OUTPUT = f"{WORK}/output"
CHECKPOINT = f"{WORK}/checkpoint"
ENVIRONMENT = "/environment"
STDIN = "/stdin"  # a file that the command reads as its stdin, if it has one
# Kinds of tasks that run on the node's own system, not in an image.
PLAIN_KINDS = tuple(kind for kind in TaskKind if kind is not TaskKind.CONTAINER)
# As the first word of a command: the sandbox's own Python interpreter.
PYTHON = "{python}"


class Mount(Struct, frozen=True):
    """A directory or file of the host that is visible inside."""

    source: Path
    target: str
    writable: bool = False


class Confinement(Struct, frozen=True):
    """One command and its limits."""

    name: str  # unique on this machine while it runs: the attempt's id, or that plus a suffix
    command: tuple[str, ...]
    memory_bytes: int
    disk_bytes: int
    processes: int
    cores: int
    seconds: float
    environment: dict[str, str] = {}
    files: dict[str, bytes] = {}  # relative to the work directory; plain names only
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[Mount, ...] = ()  # all others are absent
    own_processes: int = 0  # processes or threads inside that are ours and do not count
    stdin: Path | None = None  # read as its stdin, mounted read-only; None: nothing
    image: str | None = None  # container image; None: the node's own system
    shows_packages: bool = False  # the Python packages of the node's own system, for its programs
    image_seconds: float = 86_400.0  # time limit for pulling the image
    is_of_other: bool = False  # whether it is a task of another account than the node's owner
    proxy: Path | None = None  # the socket of the proxy that is its way out; None: no network
    raw_network: Path | None = None  # the socket of its raw service, instead of a proxy

    @property
    def all_mounts(self) -> tuple[Mount, ...]:
        """With the stdin. An open file of the cache could be reopened for writing inside; a
        read-only mount cannot."""
        return self.mounts if self.stdin is None else (*self.mounts, Mount(self.stdin, STDIN))


class RunOutcome(Struct, frozen=True):
    """How a run ended, or has to end: by exit status, signal, limit or stop request.

    Resource usage is filled in once none of its processes runs, `value` once a function returned.
    """

    reason: EndReason
    detail: str  # for the owner of the task
    exit_code: int | None = None  # a signal is negative
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_peak_bytes: int = 0
    log_bytes: int = 0
    value: Value | None = None  # what a function returned or raised


# Called with "stdout" or "stderr" and bytes as they arrive; awaiting it applies back-pressure.
Output = Callable[[str, bytes], Awaitable[None]]
# Called once, when the command has been started.
Started = Callable[[], Awaitable[None]]


class StopRequested(Exception):
    """A stop request arrived before the run was ready."""

    def __init__(self, touched: RunOutcome) -> None:
        super().__init__(touched.detail)
        self.touched = touched


class StopRequest:
    """A request from outside to stop a run early.

    Its processes get SIGTERM and may exit by themselves during the grace period. The first reason
    stays; a later request can only shorten the grace period. A run that has not started never does.
    """

    def __init__(self) -> None:
        self.said: RunOutcome | None = None
        self._deadline = math.inf
        self._asked = asyncio.Event()
        self._nearer = asyncio.Event()
        self._others: list[StopRequest] = []

    def ask(self, reason: EndReason, grace_seconds: float, detail: str = "") -> None:
        """`detail` is a sentence for the task's owner."""
        if self.said is None:
            self.said = RunOutcome(reason, detail or reason.facts.meaning)
        self._deadline = min(self._deadline, time.monotonic() + grace_seconds)
        self._asked.set()
        self._nearer.set()
        for other in self._others:
            other.ask(reason, grace_seconds, detail)

    def pass_on(self, other: "StopRequest") -> None:
        """Forwards this request to `other`, now if it has already been made, else later."""
        self._others.append(other)
        if self.said is not None:
            grace_seconds = self._deadline - time.monotonic()
            other.ask(self.said.reason, grace_seconds, self.said.detail)

    async def asked(self) -> RunOutcome:
        await self._asked.wait()
        assert self.said is not None
        return self.said

    async def unless(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of `work`; on a stop request cancels it and raises StopRequested."""
        working, asked = asyncio.create_task(work), asyncio.create_task(self.asked())
        try:
            await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                raise StopRequested(asked.result())
            return working.result()
        finally:
            await cancel_all(working, asked)

    async def grace_over(self) -> None:
        while (left_seconds := self._deadline - time.monotonic()) > 0:
            self._nearer.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_seconds):
                    await self._nearer.wait()


class WorkDirectory(Struct, frozen=True):
    """A run's work directory seen from outside; valid until the run is cleaned up.

    The task's code controls its content: open everything below the descriptor step by step, and
    follow no links.
    """

    descriptor: int
    uid: int | None = None  # owner of files that we create there; None: already right


class InputFailed(Exception):
    """An input cannot be placed in the work directory; the message says why."""

    def __init__(self, detail: str, reason: EndReason = EndReason.INPUT_FAILED) -> None:
        super().__init__(detail)
        self.touched = RunOutcome(reason, detail)


class Errand(Protocol):
    """Hooks that work in a run's work directory from outside."""

    async def before(self, work: WorkDirectory) -> None:
        """Called after setup and before the command starts; InputFailed prevents the start."""
        ...

    async def during(self, work: WorkDirectory) -> None:
        """Runs concurrently with the command; cancelled when that ends."""
        ...

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        """Called when no process is left; the directory is removed afterwards.

        Not called for a run that never started or was cancelled.
        """
        ...


class NoErrand:
    async def before(self, work: WorkDirectory) -> None:
        pass

    async def during(self, work: WorkDirectory) -> None:
        pass

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        pass


NO_ERRAND = NoErrand()


class ResourceUse(Struct, frozen=True):
    """What a run has used so far."""

    cpu_seconds: float
    memory_peak_bytes: int


class RunView(Struct, frozen=True):
    """What a companion can learn about the run."""

    touched: Callable[[], RunOutcome | None]  # the limit that is exceeded now, if any
    drained: Callable[[], Awaitable[None]]  # returns when all output so far has been passed on
    spent: Callable[[], ResourceUse]
    work: WorkDirectory


class Companion(Protocol):
    """Talks with the command through its stdin while it runs."""

    stdin: int  # the command's end

    async def talk(self, view: RunView) -> RunOutcome | None:
        """Returns the outcome to end the run with; None lets it exit by itself."""
        ...


async def ignore_start() -> None:
    """A `Started` callback that does nothing."""


class RunHooks(Struct, frozen=True):
    """What a run calls, and what may talk with it or stop it."""

    started: Started = ignore_start
    companion: Companion | None = None
    recall: StopRequest | None = None
    errand: Errand = NO_ERRAND


NO_HOOKS = RunHooks()


def make_trial(name: str, *arguments: str) -> Confinement:
    """The sandbox's interpreter with these arguments, under small limits."""
    return Confinement(
        name=name,
        command=(PYTHON, "-I", "-S", *arguments),
        memory_bytes=256 * MIB,
        disk_bytes=MIB,
        processes=16,
        cores=1,
        seconds=60.0,
    )


class Driver(Protocol):
    """Confines commands. Cancelling `run` immediately ends everything that it started."""

    encloses_processes: bool  # whether a command sees its own processes only

    async def probe(self) -> SandboxReport:
        """Reports what is actually enforced, by a trial run; raises SandboxUnavailable."""
        ...

    async def run(
        self, confinement: Confinement, output: Output, hooks: RunHooks = NO_HOOKS
    ) -> RunOutcome:
        """Runs the command to its end, and leaves nothing of it behind, however this returns.

        After a stop request the outcome has its reason, whatever the exit status.
        """
        ...

    async def reap(self) -> None:
        """Removes what an earlier process of this provider left behind."""
        ...

    def held_bytes(self) -> int:
        """What the work directories of current runs take of the owner's disk."""
        ...


async def stage_inputs(
    errand: Errand, work: WorkDirectory, recall: StopRequest
) -> RunOutcome | None:
    """Runs `errand.before`; returns the outcome that prevents the start, or None.

    A stop request does not wait for large inputs.
    """
    try:
        await recall.unless(errand.before(work))
    except (InputFailed, StopRequested) as failure:
        return failure.touched
    return None


def refuse_raw_network(confinement: Confinement) -> None:
    """For drivers without one; raises SandboxUnavailable."""
    if confinement.raw_network is not None:
        raise SandboxUnavailable("This sandbox has no raw network; the sandbox bwrap has one.")


_SIGNAL_OFFSET = 128  # shells and bwrap report signal n as exit status 128 + n


def outcome_of_code(code: int) -> RunOutcome:
    """The outcome of a `subprocess` return code: a signal is negative."""
    if code < 0:
        return RunOutcome(EndReason.SIGNAL, f"it was killed by {_signal_name(-code)}", code)
    if code == 0:
        return RunOutcome(EndReason.COMPLETED, "it ended with exit status 0", 0)
    return RunOutcome(EndReason.EXIT_STATUS, f"it ended with exit status {code}", code)


def outcome_of_shell_code(code: int, wait_status: int | None) -> RunOutcome:
    """The outcome of a code in which 128 + n may stand for signal n.

    The command's own wait status decides. Where the kernel does not provide it, a code that can
    be a signal is taken for one: scripts rarely choose such an exit status.
    """
    if wait_status is not None:
        return outcome_of_code(os.waitstatus_to_exitcode(wait_status))
    number = code - _SIGNAL_OFFSET
    if number not in signal.valid_signals():
        return outcome_of_code(code)
    detail = f"it was killed by {_signal_name(number)}, or ended with exit status {code}"
    return RunOutcome(EndReason.SIGNAL, detail, -number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
