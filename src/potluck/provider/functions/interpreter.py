"""One sandboxed interpreter with a function loaded in it.

It lives as long as its run in the sandbox does, and serves one attempt at a time: whoever has taken
it from the pool talks with it alone. What it prints goes to the log of that attempt, and nowhere in
between. When its run ends, for whatever reason, whoever waits for an answer is told how.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from potluck.model.task import EndReason
from potluck.provider.functions.channel import (
    INTERFERED,
    Channel,
    ChannelClosed,
    Frame,
)
from potluck.provider.functions.interpreter_key import WarmKey
from potluck.provider.sandbox.driver import (
    NO_ERRAND,
    Confinement,
    Driver,
    Errand,
    Output,
    RunOutcome,
    StopRequest,
    View,
    WorkDirectory,
    cancel_all,
    unnoticed,
)

T = TypeVar("T")
# Who has closed the channel is given so long to end as well.
_FAREWELL_SECONDS = 2.0
# What was answered before the end may be large, and is sent on before it counts.
_LAST_WORDS_SECONDS = 10.0
# Between two looks; even one who does nothing may be woken.
_IDLE_CPU_SECONDS = 0.05


class InterpreterBroken(Exception):
    """It serves nobody any more; says how it ended."""

    def __init__(self, ended: RunOutcome) -> None:
        super().__init__(ended.detail)
        self.ended = ended


class Interpreter:
    """`start` it once, `end` it once."""

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
        self._output: Output = _nobody
        self._errand: Errand = NO_ERRAND
        self._running: asyncio.Task[RunOutcome] | None = None
        self._doing: asyncio.Task[Any] | None = None

    @property
    def is_sound(self) -> bool:
        """Whether somebody else may still be served by it."""
        is_alive = self._running is not None and not self._running.done()
        return is_alive and self.recall.said is None and not self._touched.done()

    @property
    def memory_bytes(self) -> int:
        """The most that it has used."""
        return self.view.spent().memory_peak_bytes if self.is_sound else 0

    async def start(self, confinement: Confinement) -> None:
        """Returns when it has begun; raises Broken when it could not."""
        loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[None] = loop.create_future()
        self._touched: asyncio.Future[RunOutcome] = loop.create_future()
        self._running = asyncio.create_task(
            self._driver.run(confinement, self._hear, unnoticed, self, self.recall, self)
        )
        await self.race(_until(self._begun))

    def serve(self, output: Output, errand: Errand, recall: StopRequest) -> None:
        """From now on it is there for one attempt."""
        self._output, self._errand = output, errand
        recall.pass_on(self.recall)

    def rest(self) -> None:
        """It is there for nobody."""
        self._output, self._errand = _nobody, NO_ERRAND
        self.has_served, self.since = True, time.monotonic()
        self._seen_cpu_seconds: float | None = None

    def computes_on(self) -> bool:
        """Whether it has since the last look. There is none before the first: threads of libraries
        wait busily for a moment when their work is done."""
        if not self.is_sound:
            return False
        before, self._seen_cpu_seconds = self._seen_cpu_seconds, self.view.spent().cpu_seconds
        return before is not None and self._seen_cpu_seconds - before > _IDLE_CPU_SECONDS

    async def send(self, kind: bytes, size: int, parts: Iterable[bytes]) -> None:
        await self._channel.send(kind, size, parts)

    async def receive(self, within_seconds: float, why: RunOutcome) -> Frame:
        """What it says next; said nothing for so long, it is ended for that reason."""
        try:
            async with asyncio.timeout(within_seconds):
                return await self._channel.receive()
        except TimeoutError:
            self.touch(why)
            raise ChannelClosed from None

    def touch(self, touched: RunOutcome) -> None:
        """Ends it, for this reason."""
        if not self._touched.done():
            self._touched.set_result(touched)

    async def race(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result, unless the interpreter breaks before all is said; then raises Broken.

        Where the work has to do with the run's directory, that is there as long as the work is.
        """
        assert self._running is not None
        doing: asyncio.Task[T] = asyncio.create_task(work)
        self._doing = doing
        try:
            await asyncio.wait({doing, self._running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(doing)
        if not doing.cancelled() and not isinstance(doing.exception(), ChannelClosed):
            return doing.result()
        raise await self.broken()

    async def broken(self) -> InterpreterBroken:
        """How its run has ended, which it is about to; who lives on without a word is ended."""
        assert self._running is not None
        done, _ = await asyncio.wait({self._running}, timeout=_FAREWELL_SECONDS)
        if not done:
            self.touch(INTERFERED)
        ended = await self._running
        is_quiet = ended.reason is EndReason.COMPLETED
        return InterpreterBroken(_interfered(ended) if is_quiet else ended)

    async def end(self) -> None:
        """Returns when nothing of it is left."""
        if self._running is not None:
            await cancel_all(self._running)
        self._channel.close()

    async def talk(self, view: View) -> RunOutcome | None:
        """Others talk through the channel; this says only why it is to end."""
        self._channel.theirs.close()
        self.view = view
        if not self._begun.done():
            self._begun.set_result(None)
        return await self._touched

    async def before(self, work: WorkDirectory) -> None:
        await self._errand.before(work)

    async def during(self, work: WorkDirectory) -> None:
        """Each attempt looks after its own."""

    async def after(self, work: WorkDirectory, reason: EndReason) -> None:
        """What it has answered counts, and nobody is at work in the directory when that goes."""
        if self._doing is not None:
            await asyncio.wait({self._doing}, timeout=_LAST_WORDS_SECONDS)
            await cancel_all(self._doing)
        await self._errand.after(work, reason)

    async def _hear(self, stream: str, data: bytes) -> None:
        await self._output(stream, data)


def _interfered(ended: RunOutcome) -> RunOutcome:
    return replace(ended, reason=INTERFERED.reason, detail=INTERFERED.detail)


async def _until(done: asyncio.Future[None]) -> None:
    await asyncio.shield(done)


async def _nobody(_: str, __: bytes) -> None:
    """Between two attempts it has nothing to say to anybody."""
