"""One sandboxed interpreter with a loaded function, and the key that says who may reuse it.

It lives as long as its run in the sandbox, and serves one attempt at a time. Its output goes to the
log of that attempt, and is dropped in between. When its run ends, pending calls raise
InterpreterBroken with the outcome.
"""

import asyncio
import hashlib
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from potluck.model.blob import BlobRef
from potluck.model.task import EndReason
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.functions.channel import INTERFERED, Channel, ChannelClosed, Frame
from potluck.provider.sandbox.driver import (
    NO_ERRAND,
    Confinement,
    Driver,
    Errand,
    Output,
    RunHooks,
    RunOutcome,
    RunView,
    StopRequest,
    WorkDirectory,
    cancel_all,
)
from potluck.wire.provider import Grant, GrantedDevice

# Variables that identify the attempt; each session sends them anew, so they are not in the key.
ATTEMPT_VARIABLES = ("POTLUCK_TASK_ID", "POTLUCK_ATTEMPT_ID", "POTLUCK_ITEM", "POTLUCK_ITEMS")
T = TypeVar("T")
# Time to exit after it has closed the channel.
_EXIT_SECONDS = 2.0
# Time to process the last answers, which may be large, after its end.
_LAST_ANSWER_SECONDS = 10.0
# Between two checks; an idle process may be woken now and then.
_IDLE_CPU_SECONDS = 0.05


class WarmKey(Struct, frozen=True):
    """Two attempts with the same key may use one interpreter, one after the other."""

    account_id: str
    digest: str  # of code, environment, variables, secrets, limits, devices, folder and files
    devices: tuple[str, ...]
    memory_bytes: int


class _KeyParts(Struct, frozen=True):
    """Only the hash is kept, since this contains secrets."""

    account_id: str
    code: str
    confinement: Confinement  # environment, variables, secrets, limits, files, device mounts
    devices: list[GrantedDevice]
    folder: BlobRef | None
    alone: str = ""


def make_warm_key(job: PreparedAttempt, spec: FunctionSpec, confinement: Confinement) -> WarmKey:
    grant = job.grant
    code = spec.code.blob.sha256 if spec.code.blob else hashlib.sha256(spec.code.data).hexdigest()
    parts = _KeyParts(
        grant.account_id,
        code,
        replace(confinement, name=""),
        grant.devices,
        spec.folder,
        # An attempt that resumes from a checkpoint needs a directory of its own.
        alone=grant.attempt_id if grant.checkpoint else "",
    )
    encoded = msgspec.msgpack.encode(parts, enc_hook=_text, order="deterministic")
    return WarmKey(
        grant.account_id,
        hashlib.sha256(encoded).hexdigest(),
        device_uuids(grant),
        grant.requirements.memory_bytes,
    )


def device_uuids(grant: Grant) -> tuple[str, ...]:
    return tuple(device.uuid for device in grant.devices)


def _text(value: object) -> str:
    assert isinstance(value, Path)
    return str(value)


class InterpreterBroken(Exception):
    """The interpreter's run has ended, with this outcome."""

    def __init__(self, ended: RunOutcome) -> None:
        super().__init__(ended.detail)
        self.ended = ended


class Interpreter:
    """Call `start` once and `end` once."""

    def __init__(self, key: WarmKey, driver: Driver, name: str) -> None:
        self.key = key
        self.name = name
        self.recall = StopRequest()
        self.served_items = 0
        self.has_served = False
        self.since = self.born = time.monotonic()
        self._driver = driver
        self._channel = Channel()
        self.stdin = self._channel.theirs.fileno()
        self._output: Output = _discard
        self._errand: Errand = NO_ERRAND
        self._running: asyncio.Task[RunOutcome] | None = None
        self._work: asyncio.Task[Any] | None = None

    @property
    def is_sound(self) -> bool:
        """Whether it can serve another attempt."""
        is_alive = self._running is not None and not self._running.done()
        return is_alive and self.recall.said is None and not self._touched.done()

    @property
    def memory_bytes(self) -> int:
        """The peak so far."""
        return self.view.spent().memory_peak_bytes if self.is_sound else 0

    async def start(self, confinement: Confinement) -> None:
        """Returns when it has started; raises InterpreterBroken if it cannot."""
        loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[None] = loop.create_future()
        self._touched: asyncio.Future[RunOutcome] = loop.create_future()
        hooks = RunHooks(companion=self, recall=self.recall, errand=self)
        self._running = asyncio.create_task(self._driver.run(confinement, self._pass_on, hooks))
        await self.race(_wait_for(self._begun))

    def serve(self, output: Output, errand: Errand, recall: StopRequest) -> None:
        """Assigns it to one attempt."""
        self._output, self._errand = output, errand
        recall.pass_on(self.recall)

    def rest(self) -> None:
        """Ends the assignment."""
        self._output, self._errand = _discard, NO_ERRAND
        self.has_served, self.since = True, time.monotonic()
        self._seen_cpu_seconds: float | None = None

    def computes_on(self) -> bool:
        """Whether it has used CPU since the last check. The first check after `rest` is always
        False: threads of libraries spin for a moment when their work is done."""
        if not self.is_sound:
            return False
        before, self._seen_cpu_seconds = self._seen_cpu_seconds, self.view.spent().cpu_seconds
        return before is not None and self._seen_cpu_seconds - before > _IDLE_CPU_SECONDS

    async def send(self, kind: bytes, size: int, parts: Iterable[bytes]) -> None:
        await self._channel.send(kind, size, parts)

    async def receive(self, within_seconds: float, why: RunOutcome) -> Frame:
        """Its next frame; after the time limit it is ended with the outcome `why`."""
        try:
            async with asyncio.timeout(within_seconds):
                return await self._channel.receive()
        except TimeoutError:
            self.touch(why)
            raise ChannelClosed from None

    def touch(self, touched: RunOutcome) -> None:
        """Ends it with this outcome, unless another came first."""
        if not self._touched.done():
            self._touched.set_result(touched)

    async def race(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; raises InterpreterBroken if the interpreter breaks before.

        The run's directory exists as long as the work does.
        """
        assert self._running is not None
        working: asyncio.Task[T] = asyncio.create_task(work)
        self._work = working
        try:
            await asyncio.wait({working, self._running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(working)
        if not working.cancelled() and not isinstance(working.exception(), ChannelClosed):
            return working.result()
        raise await self.broken()

    async def broken(self) -> InterpreterBroken:
        """Waits for its run to end, and ends it if it does not exit soon."""
        assert self._running is not None
        done, _ = await asyncio.wait({self._running}, timeout=_EXIT_SECONDS)
        if not done:
            self.touch(INTERFERED)
        ended = await self._running
        is_quiet = ended.reason is EndReason.COMPLETED
        return InterpreterBroken(_interfered(ended) if is_quiet else ended)

    async def end(self) -> None:
        """Cancels its run; returns when all its processes are dead."""
        if self._running is not None:
            await cancel_all(self._running)
        self._channel.close()

    async def talk(self, view: RunView) -> RunOutcome | None:
        """Others use the channel; this only waits for the outcome that ends the run."""
        self._channel.theirs.close()
        self.view = view
        if not self._begun.done():
            self._begun.set_result(None)
        return await self._touched

    async def before(self, work: WorkDirectory) -> None:
        await self._errand.before(work)

    async def during(self, work: WorkDirectory) -> None:
        """Each attempt does this for itself."""

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        """Answers already received count, and all work in the directory ends before its removal."""
        if self._work is not None:
            await asyncio.wait({self._work}, timeout=_LAST_ANSWER_SECONDS)
            await cancel_all(self._work)
        await self._errand.after(work, reason)

    async def _pass_on(self, stream: str, data: bytes) -> None:
        await self._output(stream, data)


def _interfered(ended: RunOutcome) -> RunOutcome:
    return replace(ended, reason=INTERFERED.reason, detail=INTERFERED.detail)


async def _wait_for(done: asyncio.Future[None]) -> None:
    await asyncio.shield(done)


async def _discard(_: str, __: bytes) -> None:
    """Drops output between two attempts."""
