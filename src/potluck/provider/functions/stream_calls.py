"""Runs the calls of a stream as they come, in one warm interpreter.

Calls are items whose arguments arrive one after the other. When all are done, the run waits for
more, for as long as the server says, and then ends; it ends at once when it is released. Frames
hold what came while the last ones ran, and little work: so an attempt that is released ends soon,
and gives the rest back. A call that is cancelled is skipped if it was not sent yet. One that was
sent is stopped with its interpreter once it is known to run; those behind it run in another one.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate

from msgspec.structs import replace

from potluck.model.task import EndReason, ItemRange
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt.item_feed import ItemFeed
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.functions.arguments import MOST_FRAME_BYTES, ItemBatch
from potluck.provider.functions.channel import ChannelClosed
from potluck.provider.functions.interpreter import Interpreter, WarmKey
from potluck.provider.functions.interpreter_pool import WarmPool
from potluck.provider.functions.items import FunctionItems
from potluck.provider.functions.session import InterpreterSession, ItemsAnswer, TitledLog
from potluck.provider.sandbox.driver import Confinement, RunOutcome, StopRequested
from potluck.wire import item_file

# The work of one frame, by what earlier items took.
_FRAME_SECONDS = 0.05
_MOST_FRAME_ITEMS = 4_096
_FRAMES_AHEAD = 2  # sent before the first of them is answered
# How long a released run continues with the items that it has; the rest is returned.
_RELEASED_SECONDS = 0.5
_CANCELLED = RunOutcome(EndReason.CANCELLED, "the call was cancelled")


class CallArguments:
    """The arguments of the calls that came and are not done."""

    def __init__(self) -> None:
        self._arguments: dict[int, bytes] = {}

    def add(self, start: int, values: list[bytes]) -> None:
        self._arguments.update(enumerate(values, start))

    def remove(self, items: ItemRange) -> None:
        for item in range(items.start, items.end):
            self._arguments.pop(item, None)

    def batches(self, items: ItemRange, most_items: int) -> Iterator[ItemBatch]:
        start = items.start
        while start < items.end:
            end = min(items.end, start + most_items)
            sizes = [len(self._arguments[item]) for item in range(start, end)]
            offsets = list(accumulate(sizes, initial=0))
            fits = [offset for offset in offsets[2:] if offset <= MOST_FRAME_BYTES]
            batch = ItemBatch(start, tuple(offsets[: 2 + len(fits)]))
            yield batch
            start = batch.end

    def parts(self, batch: ItemBatch) -> Iterator[bytes]:
        yield batch.head
        yield b"".join(self._arguments[item] for item in range(batch.start, batch.end))

    def size(self, batch: ItemBatch) -> int:
        return len(batch.head) + batch.offsets[-1]


class StreamCalls(FunctionItems):
    """The calls of one attempt; call `to_its_end` once."""

    def __init__(
        self, job: PreparedAttempt, spec: FunctionSpec, feed: ItemFeed, flush_seconds: float
    ) -> None:
        self._calls = CallArguments()
        # A caller waits for each: errors are sent as soon as results.
        super().__init__(job, spec, self._calls, flush_seconds, _FRAME_SECONDS)
        self._log = self._titled = TitledLog(job)
        self._feed = feed
        self._linger_seconds = job.grant.linger_seconds or 0.0
        self._left.clear()  # they come with their arguments
        self._unsent: deque[ItemRange] = deque()
        self._has_unsent, self._has_news = asyncio.Event(), asyncio.Event()
        self._is_ending = False
        self._cancelled: set[int] = set()  # that were sent and have no outcome
        self._interpreter: Interpreter | None = None  # that serves now
        self._work_seconds, self._done = 0.0, 0
        feed.listen(self._take_new)

    async def to_its_end(
        self, pool: WarmPool, key: WarmKey, confinement: Confinement
    ) -> RunOutcome:
        try:
            return await super().to_its_end(pool, key, confinement)
        finally:
            await self._titled.close()

    async def _has_items(self) -> bool:
        """Waits for more when there are none, unless the run is to end."""
        if self._feed.released_seconds > _RELEASED_SECONDS:
            self._give_back()
        if not (self._left or self._is_ending):
            with suppress(StopRequested, TimeoutError):
                async with asyncio.timeout(self._linger_seconds):
                    await self._job.recall.unless(self._wait_for_items())
        # Items that came while an interpreter was given back run in another one.
        self._is_ending = not self._left
        if self._is_ending:
            self._has_unsent.set()
        return bool(self._left)

    async def _wait_for_items(self) -> None:
        while not (self._left or self._feed.is_released):
            self._has_news.clear()
            await self._has_news.wait()

    def _give_back(self) -> None:
        """Forgets what was not sent to the interpreter."""
        if self._unsent:
            first = self._unsent[0].start
            parts = [part for part in self._left if part.start < first]
            self._left = deque(ItemRange(part.start, min(part.end, first)) for part in parts)
            self._unsent.clear()

    def _take_new(self) -> None:
        for new in self._feed.take():
            self._calls.add(new.start, item_file.unpack(new.inputs, new.end - new.start))
            part = ItemRange(new.start, new.end)
            self._left.append(part)
            self._unsent.append(part)
        for cancelled in self._feed.take_cancelled():
            self._cancel(cancelled)
        self._has_unsent.set()
        self._has_news.set()

    def _cancel(self, cancelled: ItemRange) -> None:
        """Skips what was not sent. The first of all is as good as sent: its answer is awaited."""
        if not self._left:
            return
        head = self._left[0].start
        end_of_sent = self._unsent[0].start if self._unsent else self._left[-1].end
        skipped = ItemRange(max(cancelled.start, end_of_sent, head + 1), cancelled.end)
        for parts in (self._left, self._unsent):
            kept = [part for whole in parts for part in _without(whole, skipped)]
            parts.clear()
            parts.extend(kept)
        self._calls.remove(skipped)
        self._cancelled.update(range(max(cancelled.start, head), min(cancelled.end, skipped.start)))
        self._stop_cancelled()

    def _note_running(self, session: InterpreterSession, item: int) -> None:
        super()._note_running(session, item)
        self._stop_cancelled()

    def _stop_cancelled(self) -> None:
        """Stops the call that runs, if it is cancelled. Most end before they are known to run."""
        is_known = self._running is not None and self._running == self._left[0].start
        if is_known and self._running in self._cancelled and self._interpreter is not None:
            self._interpreter.touch(_CANCELLED)

    async def _run(self, interpreter: Interpreter) -> RunOutcome | None:
        self._interpreter = interpreter
        try:
            return await super()._run(interpreter)
        finally:
            self._interpreter = None

    def _can_continue_after(self, broken: RunOutcome) -> bool:
        """What was sent and is cancelled is not sent again."""
        can_continue = True
        if broken.reason is not EndReason.CANCELLED:
            can_continue = super()._can_continue_after(broken)
        for item in self._cancelled:
            cancelled = ItemRange(item, item + 1)
            self._left = deque(part for whole in self._left for part in _without(whole, cancelled))
            self._calls.remove(cancelled)
        self._cancelled.clear()
        return can_continue

    async def _send(self, interpreter: Interpreter, left: list[ItemRange]) -> None:
        """Sends frames as items come, a few ahead of the answers, until the run ends."""
        self._unsent = deque(left)
        under_way: deque[int] = deque()  # the ends of frames
        ahead = 1 if self._is_careful else _FRAMES_AHEAD
        with suppress(ChannelClosed):
            while await self._next_unsent():
                end = await self._send_frame(interpreter)
                under_way.append(end)
                if len(under_way) >= ahead:
                    await self._wait_until_concluded(interpreter, under_way.popleft())
            await self._release_collected(interpreter)

    async def _next_unsent(self) -> bool:
        """False when the interpreter is given back: its answer to later items would not be read."""
        while not (self._unsent or self._is_ending):
            self._has_unsent.clear()
            await self._has_unsent.wait()
        return not self._is_ending

    async def _send_frame(self, interpreter: Interpreter) -> int:
        """Sends the next items; returns where the frame ends."""
        first = self._unsent.popleft()
        batch = next(self._calls.batches(first, self._frame_items()))
        if batch.end < first.end:
            self._unsent.appendleft(ItemRange(batch.end, first.end))
        await self._release_collected(interpreter)
        await interpreter.send(b"I", self._calls.size(batch), self._calls.parts(batch))
        return batch.end

    def _frame_items(self) -> int:
        if self._is_careful or not self._done:
            return 1
        call_seconds = max(self._work_seconds / self._done, 1e-6)
        return max(1, min(_MOST_FRAME_ITEMS, int(_FRAME_SECONDS / call_seconds)))

    async def _conclude(self, answer: ItemsAnswer, count: int) -> None:
        self._work_seconds += answer.seconds
        self._done += count
        await super()._conclude(answer, count)

    def _pop(self, count: int) -> None:
        first = self._left[0]
        self._calls.remove(ItemRange(first.start, first.start + count))
        self._cancelled.difference_update(range(first.start, first.start + count))
        super()._pop(count)

    def _outcome(self, broken: RunOutcome | None = None) -> RunOutcome:
        """The time between calls is not work."""
        return replace(super()._outcome(broken), run_seconds=self._work_seconds)


def _without(whole: ItemRange, skipped: ItemRange) -> list[ItemRange]:
    if skipped.start >= skipped.end:
        return [whole]
    before = ItemRange(whole.start, min(whole.end, skipped.start))
    behind = ItemRange(max(whole.start, skipped.end), whole.end)
    return [part for part in (before, behind) if part.start < part.end]
