"""The interface of every sandbox: what to run, the walls around it, and how it ended."""

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
from potluck.model.node import SandboxReport
from potluck.model.task import MIB, EndReason
from potluck.model.terms import TaskKind


async def wait_readable(descriptor: int) -> None:
    """Returns when a read would not block: data, end of file, or, for a pidfd, the end of life."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, _resolve, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def wait_writable(descriptor: int) -> None:
    """Returns when a write would not block, or the other end is gone."""
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
    """Cancels them and returns when they have let go of everything."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


T = TypeVar("T")

# Where the task works inside every sandbox, what of that comes back and what survives the attempt,
# and where a prepared environment is mounted.
WORK = "/work"
OUTPUT = f"{WORK}/output"
CHECKPOINT = f"{WORK}/checkpoint"
ENVIRONMENT = "/environment"
# Of tasks that run on the node's own system, and in no image.
PLAIN_KINDS = tuple(kind for kind in TaskKind if kind is not TaskKind.CONTAINER)
# As the first word of a command: the sandbox's own interpreter.
PYTHON = "{python}"


class Mount(Struct, frozen=True):
    """A directory or file of the host that is shown inside."""

    source: Path
    target: str
    writable: bool = False


class Confinement(Struct, frozen=True):
    """One command and the walls around it."""

    name: str  # unique on this machine while it runs: the attempt's id, or that plus a suffix
    command: tuple[str, ...]  # PYTHON as first word: the sandbox's own interpreter
    memory_bytes: int
    disk_bytes: int
    processes: int
    cores: int
    seconds: float
    log_bytes: int
    environment: dict[str, str] = {}
    files: dict[str, bytes] = {}  # relative to the work directory; plain names only
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[Mount, ...] = ()  # that may be used; all others are absent
    own_processes: int = 0  # how many of the processes inside are ours, and not counted
    image: str | None = None  # the container image that it runs in; None: the node's own system
    image_seconds: float = 86_400.0  # how long that may take to come


class RunOutcome(Struct, frozen=True):
    """How a run ended, or has to end: by its own exit status or signal, a limit, or a recall.

    What it used is filled in once nothing of it runs, and the value once a function has given one.
    """

    reason: EndReason
    detail: str  # for the owner of the task
    exit_code: int | None = None  # a signal is negative
    run_seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_peak_bytes: int = 0
    log_bytes: int = 0
    value: Value | None = None  # what a function returned or raised


# Called with "stdout" or "stderr" and the bytes as they come; awaiting it is the back-pressure.
# Where the log is cut, called once more with "potluck" and a line that says so.
Output = Callable[[str, bytes], Awaitable[None]]
# Called once, when the command itself has been started.
Started = Callable[[], Awaitable[None]]


class Recalled(Exception):
    """It was called back before it was ready."""

    def __init__(self, touched: RunOutcome) -> None:
        super().__init__(touched.detail)
        self.touched = touched


class StopRequest:
    """A wish from outside that a run end early, for a reason that is not its own.

    Its processes get SIGTERM, and may come to an end of their own until the grace is over. The
    first reason stays; a later wish can only bring the end nearer. A run that has not begun when
    it is asked never does.
    """

    def __init__(self) -> None:
        self.said: RunOutcome | None = None
        self._deadline = math.inf
        self._asked = asyncio.Event()
        self._nearer = asyncio.Event()
        self._others: list[StopRequest] = []

    def ask(self, reason: EndReason, grace_seconds: float, detail: str = "") -> None:
        """The detail is a sentence for the owner of the task."""
        if self.said is None:
            self.said = RunOutcome(reason, detail or reason.facts.meaning)
        self._deadline = min(self._deadline, time.monotonic() + grace_seconds)
        self._asked.set()
        self._nearer.set()
        for other in self._others:
            other.ask(reason, grace_seconds, detail)

    def pass_on(self, other: "StopRequest") -> None:
        """Whoever asks this one asks the other too, also if that has been before."""
        self._others.append(other)
        if self.said is not None:
            grace_seconds = self._deadline - time.monotonic()
            other.ask(self.said.reason, grace_seconds, self.said.detail)

    async def asked(self) -> RunOutcome:
        await self._asked.wait()
        assert self.said is not None
        return self.said

    async def unless(self, work: Coroutine[Any, Any, T]) -> T:
        """What the work gives. Raises Recalled, and drops it, if somebody asks meanwhile."""
        working, asked = asyncio.create_task(work), asyncio.create_task(self.asked())
        try:
            await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                raise Recalled(asked.result())
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
    """The directory that a run works in, from outside, as long as the run is not cleared away.

    What is inside may be anything that the task's code has made of it: below the descriptor all is
    opened step by step, and no link is followed.
    """

    descriptor: int
    uid: int | None = None  # to whom what we put there must belong; None: it is his already


class InputFailed(Exception):
    """What the task needs can not be put where it works; says why."""

    def __init__(self, detail: str, reason: EndReason = EndReason.INPUT_FAILED) -> None:
        super().__init__(detail)
        self.touched = RunOutcome(reason, detail)


class Errand(Protocol):
    """What somebody outside has to do in the work directory of a run."""

    async def before(self, work: WorkDirectory) -> None:
        """All is set up, and nothing runs yet. May raise InputFailed; then nothing ever does."""
        ...

    async def during(self, work: WorkDirectory) -> None:
        """Beside the run; cancelled when that ends."""
        ...

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        """Nothing runs any more, and this is how it ended; the directory goes away after it.

        Not called for a run that never began, nor for one that is cancelled.
        """
        ...


class NoErrand:
    """For runs whose directory is nobody's concern."""

    async def before(self, work: WorkDirectory) -> None:
        pass

    async def during(self, work: WorkDirectory) -> None:
        pass

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        pass


NO_ERRAND = NoErrand()


class ResourceUse(Struct, frozen=True):
    """What a run has used up to now."""

    cpu_seconds: float
    memory_peak_bytes: int


class View(Struct, frozen=True):
    """What a companion may ask about the run."""

    touched: Callable[[], RunOutcome | None]  # whether a wall is touched, asked now
    drained: Callable[[], Awaitable[None]]  # returns when all that was written has been passed on
    spent: Callable[[], ResourceUse]
    work: WorkDirectory


class Companion(Protocol):
    """Somebody outside who talks with the command through its stdin, while it runs."""

    stdin: int  # the command's end

    async def talk(self, view: View) -> RunOutcome | None:
        """Returns what the run is to be ended with; None lets it end by itself."""
        ...


async def unnoticed() -> None:
    """For those who do not want to know."""


def small_trial(name: str, *arguments: str) -> Confinement:
    """The sandbox's own interpreter with these arguments, within walls that suit a question."""
    return Confinement(
        name=name,
        command=(PYTHON, "-I", "-S", *arguments),
        memory_bytes=256 * MIB,
        disk_bytes=MIB,
        processes=16,
        cores=1,
        seconds=60.0,
        log_bytes=65_536,
    )


class Driver(Protocol):
    """A way to confine a command. Cancelling `run` ends all that it started, at once."""

    # Whether all processes that a command can see are its own.
    encloses_processes: bool

    async def probe(self) -> SandboxReport:
        """What is really enforced here, found out by trying; raises SandboxUnavailable."""
        ...

    async def run(
        self,
        confinement: Confinement,
        output: Output,
        started: Started = unnoticed,
        companion: Companion | None = None,
        recall: StopRequest | None = None,
        errand: Errand = NO_ERRAND,
    ) -> RunOutcome:
        """Runs the command to its end. Nothing of it is left behind, however this returns.

        Recalled, it ends with the reason of that, whatever its exit status.
        """
        ...

    async def reap(self) -> None:
        """Removes what an earlier life of this provider left behind (it may have been killed)."""
        ...


async def stage_inputs(
    errand: Errand, work: WorkDirectory, recall: StopRequest
) -> RunOutcome | None:
    """What the run ends with before it has begun; None when it can begin.

    Large inputs take a while, and whoever calls the run back does not wait for them.
    """
    try:
        await recall.unless(errand.before(work))
    except (InputFailed, Recalled) as failure:
        return failure.touched
    return None


_SIGNAL_OFFSET = 128  # shells and bwrap tell a signal n as the exit status 128 + n


def of_code(code: int) -> RunOutcome:
    """For a code as `subprocess` tells it: a signal is negative."""
    if code < 0:
        return RunOutcome(EndReason.SIGNAL, f"it was killed by {_signal_name(-code)}", code)
    if code == 0:
        return RunOutcome(EndReason.COMPLETED, "it ended with exit status 0", 0)
    return RunOutcome(EndReason.EXIT_STATUS, f"it ended with exit status {code}", code)


def outcome_of_shell_code(code: int, wait_status: int | None) -> RunOutcome:
    """For a code in which a signal may hide as 128 + n.

    The wait status of the command itself settles it. Where the kernel does not tell that, a code
    that can be a signal is taken for one: scripts rarely choose such an exit status.
    """
    if wait_status is not None:
        return of_code(os.waitstatus_to_exitcode(wait_status))
    hidden = code - _SIGNAL_OFFSET
    if hidden not in signal.valid_signals():
        return of_code(code)
    detail = f"it was killed by {_signal_name(hidden)}, or ended with exit status {code}"
    return RunOutcome(EndReason.SIGNAL, detail, -hidden)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
