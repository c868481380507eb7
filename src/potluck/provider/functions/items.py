"""Runs a range of a function's items: as many as possible in one interpreter, in few frames.

Answers arrive in the order of the items. An item that breaks the interpreter gets that outcome, and
the rest continue in a new one. The item is known if the last frame announced it. Otherwise the
candidates run again in careful mode: each is announced, and sent only when the one before it has
its outcome.
"""

import asyncio
import hashlib
from collections import deque
from contextlib import suppress

from msgspec.structs import replace

from potluck.model.blob import INLINE_BYTES, BlobRef, Value
from potluck.model.error import PotluckError, StaleLease
from potluck.model.task import EndReason, ItemRange
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt.item_blame import Blame, assign_blame
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.attempt.unsent_results import MOST_OUTCOMES, Outcomes
from potluck.provider.event import ItemsEnded
from potluck.provider.files.work_directory import AttemptFiles
from potluck.provider.functions.arguments import MOST_ITEMS, ItemArguments
from potluck.provider.functions.channel import ChannelClosed
from potluck.provider.functions.interpreter import Interpreter, InterpreterBroken, WarmKey
from potluck.provider.functions.interpreter_main import COLLECTED
from potluck.provider.functions.interpreter_pool import Borrower, WarmPool
from potluck.provider.functions.session import (
    InterpreterSession,
    ItemsAnswer,
    NotLoaded,
    SessionLog,
    TitledLog,
    error_lines,
    platform_error,
    shorten_error,
)
from potluck.provider.one_line import one_line
from potluck.provider.sandbox.driver import Confinement, RunOutcome, StopRequested, cancel_all
from potluck.wire.provider import ItemOutcome, ReturnedItems

_DETAIL_CHARACTERS = 200
# Items with a shorter time limit always run in careful mode.
_SHORT_SECONDS = 1.0
_ALL_DONE = "all items have an outcome"


class FunctionItems:
    """A single range; call `to_its_end` once."""

    def __init__(
        self,
        job: PreparedAttempt,
        spec: FunctionSpec,
        arguments: ItemArguments,
        flush_seconds: float,
        outcome_seconds: float | None = None,
    ) -> None:
        """`outcome_seconds`: how long an error waits for others, if not `flush_seconds`."""
        self._job = job
        self._spec = spec
        self._arguments = arguments
        self._flush_seconds = flush_seconds
        self._porter = AttemptFiles(job, {})
        self._log: SessionLog | TitledLog = SessionLog(job)
        longest_seconds = flush_seconds if outcome_seconds is None else outcome_seconds
        self._outcomes = Outcomes(job.grant.attempt_id, self._tell, longest_seconds)
        self._left = deque(job.grant.items)
        is_short = job.grant.limits.run_seconds < _SHORT_SECONDS
        # New files are known only if one item runs at a time.
        self._is_careful = is_short or self._porter.keeps_new_of_calls
        self._running: int | None = None  # the item that was announced last
        self._collected: deque[int] = deque()  # file folders that the interpreter may remove
        self._progress = asyncio.Event()  # set when items have an outcome
        self._total = RunOutcome(EndReason.COMPLETED, _ALL_DONE, 0)
        self._has_started = False
        self._has_concluded = False  # whether an item has an outcome in this interpreter

    async def to_its_end(
        self, pool: WarmPool, key: WarmKey, confinement: Confinement
    ) -> RunOutcome:
        """`completed` when every item has an outcome; otherwise why the rest have none."""
        attempt_id = self._job.grant.attempt_id
        borrower = Borrower(attempt_id, self._log.write, self._porter, self._job.recall)
        try:
            while await self._has_items():
                self._running, self._has_concluded = None, False
                self._collected.clear()
                self._job.log.forget_last_lines()  # of an interpreter that ended
                self._porter.begin(None)  # a new interpreter numbers its folders from 1 again
                broken = await self._run_in_one(pool, key, confinement, borrower)
                if broken is not None and not self._can_continue_after(broken):
                    return self._outcome(broken)
            return self._outcome()
        finally:
            self._outcomes.flush()

    async def _has_items(self) -> bool:
        return bool(self._left)

    async def _run_in_one(
        self, pool: WarmPool, key: WarmKey, confinement: Confinement, borrower: Borrower
    ) -> RunOutcome | None:
        """Returns how the interpreter broke, or None."""
        try:
            async with pool.lend(key, confinement, borrower) as interpreter:
                return await self._run(interpreter)
        except InterpreterBroken as broken:
            return broken.ended

    async def _run(self, interpreter: Interpreter) -> RunOutcome | None:
        if not self._has_started:
            self._has_started = True
            await self._job.started()
        session = InterpreterSession(self._job, self._spec, interpreter)
        try:
            self._add(await interpreter.race(self._serve(interpreter, session)))
        except InterpreterBroken as broken:
            self._add(session.account(broken.ended))
            return broken.ended
        return None

    async def _serve(self, interpreter: Interpreter, session: InterpreterSession) -> RunOutcome:
        """Returns the usage of this session."""
        try:
            await session.begin(self._is_careful, self._flush_seconds)
            await self._porter.note_before_call(interpreter.view.work)
            await self._talk(interpreter, session)
        except NotLoaded as failure:
            await self._fail_all(failure.error)
        return session.account_now(self._total)

    async def _talk(self, interpreter: Interpreter, session: InterpreterSession) -> None:
        sending = asyncio.create_task(self._send(interpreter, list(self._left)))
        receiving = asyncio.create_task(self._receive_all(interpreter, session))
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            await receiving
            await session.in_time(sending)
        finally:
            await cancel_all(sending, receiving)
        await interpreter.view.drained()

    async def _send(self, interpreter: Interpreter, left: list[ItemRange]) -> None:
        """Sends all frames, until every item has been answered.

        Raises InputFailed. A closed channel is handled by `_receive_all`.
        """
        with suppress(ChannelClosed):
            most_items = 1 if self._is_careful else MOST_ITEMS
            for part in left:
                for batch in self._arguments.batches(part, most_items):
                    await self._release_collected(interpreter)
                    size = self._arguments.size(batch)
                    await interpreter.send(b"I", size, self._arguments.parts(batch))
                    if self._is_careful:
                        await self._wait_until_concluded(interpreter, batch.end)
            await self._wait_until_concluded(interpreter, left[-1].end)
            await self._release_collected(interpreter)

    async def _wait_until_concluded(self, interpreter: Interpreter, end: int) -> None:
        """Returns when all items before `end` have an outcome."""
        while self._left and self._left[0].start < end:
            self._progress.clear()
            await self._release_collected(interpreter)
            await self._progress.wait()

    async def _release_collected(self, interpreter: Interpreter) -> None:
        while self._collected:
            number = str(self._collected.popleft()).encode()
            await interpreter.send(b"D", len(number), (number,))

    async def _receive_all(self, interpreter: Interpreter, session: InterpreterSession) -> None:
        while await self._has_items():
            session.begin_clock()
            answer = await session.hear(0.0 if self._is_careful else 2 * self._flush_seconds)
            if isinstance(answer, int):
                self._note_running(session, answer)
                continue
            count = self._count(session, answer)
            if self._is_careful:
                await self._check_limits(interpreter, session)
                self._job.log.forget_last_lines()  # all of its output has been read
                await self._porter.keep_new_of_call(interpreter.view.work, answer.start)
            self._running = None
            if answer.files:
                await self._take_files(interpreter, answer.files)
            await self._conclude(answer, count)
            await self._wait_for_room()
            self._progress.set()
            interpreter.served_items += count

    async def _wait_for_room(self) -> None:
        """A stop request does not wait for the server, since few results are left."""
        backlog = self._job.freight.backlog
        if not backlog.has_room:
            with suppress(StopRequested):
                await self._job.recall.unless(backlog.room())

    def _note_running(self, session: InterpreterSession, item: int) -> None:
        """Starts the item's time limit; an item is announced at most once."""
        is_new = self._running is None or item > self._running
        if not is_new or not any(part.start <= item < part.end for part in self._left):
            raise session.nonsense()
        self._running = item
        session.begin_clock()

    def _count(self, session: InterpreterSession, answer: ItemsAnswer) -> int:
        """The number of items in the answer, which must be the next ones."""
        count = 1 if answer.is_error else int.from_bytes(answer.data[:8], "little")
        is_next = answer.start == self._left[0].start and 0 < count <= len(self._left[0])
        if not is_next:
            raise session.nonsense()
        return count

    async def _check_limits(self, interpreter: Interpreter, session: InterpreterSession) -> None:
        await interpreter.view.drained()
        if (exceeded := interpreter.view.touched()) is not None:
            interpreter.touch(exceeded)
            raise session.nonsense()

    async def _take_files(self, interpreter: Interpreter, number: int) -> None:
        """Collects files before the outcomes count; `_send` then lets the folder be removed."""
        await self._porter.collect(interpreter.view.work, f"{COLLECTED}{number}")
        self._collected.append(number)

    async def _conclude(self, answer: ItemsAnswer, count: int) -> None:
        start = answer.start
        if answer.is_error:
            self._add_failure(start, answer.seconds, answer.data)
        else:
            try:
                values = await self._store_values(answer.data)
            except StaleLease:
                pass  # handled by the lease's own loop
            except PotluckError as error:
                data = platform_error(type(error).__name__, f"{error.detail} {error.hint}")
                for item in range(start, start + count):
                    self._add_failure(item, answer.seconds / count, data)
            else:
                returned = ReturnedItems(start, start + count, answer.seconds, values)
                self._tell(ItemsEnded(self._job.grant.attempt_id, (), (returned,)))
        self._pop(count)

    def _tell(self, event: ItemsEnded) -> None:
        self._job.freight.backlog.add(event)
        self._job.tell(event)

    async def _store_values(self, data: bytes) -> Value:
        """Uploads large values before a report names them."""
        if len(data) <= INLINE_BYTES:
            return Value(data)
        digest = await asyncio.to_thread(hashlib.sha256, data)
        blob = BlobRef(digest.hexdigest(), len(data))

        def read(start: int, size: int) -> bytes:
            return data[start : start + size]

        await self._job.freight.courier.send(blob, read)
        return Value(blob=blob)

    def _add_failure(self, item: int, seconds: float, error: bytes, lines: str = "") -> None:
        lines = lines or error_lines(error)
        self._outcomes.add(
            ItemOutcome(item, EndReason.EXCEPTION, seconds, error=error, last_lines=lines)
        )

    async def _fail_all(self, error: bytes) -> None:
        """Fails all items; the full error is reported once for each range."""
        lines, short = error_lines(error), shorten_error(error)
        for part in self._left:
            self._add_failure(part.start, 0.0, error, lines)
            for item in range(part.start + 1, part.end):
                self._add_failure(item, 0.0, short, lines)
                if item % MOST_OUTCOMES == 0:
                    await asyncio.sleep(0)
        self._left.clear()

    def _can_continue_after(self, broken: RunOutcome) -> bool:
        """Whether one item is to blame, or can be found by careful mode."""
        blame = assign_blame(
            broken.reason,
            self._job.recall.said,
            is_item_known=self._running is not None and self._running == self._left[0].start,
            can_go_on=self._has_started and (self._has_concluded or not self._is_careful),
        )
        if blame is Blame.ITEM:
            detail = one_line(broken.detail, _DETAIL_CHARACTERS)
            parts = (broken.reason, broken.run_seconds, broken.exit_code, detail)
            lines = self._job.log.last_lines()
            self._outcomes.add(ItemOutcome(self._left[0].start, *parts, last_lines=lines))
            self._pop(1)
        self._is_careful = True
        return blame is not Blame.ALL

    def _pop(self, count: int) -> None:
        self._has_concluded = True
        first = self._left.popleft()
        if len(first) > count:
            self._left.appendleft(ItemRange(first.start + count, first.end))

    def _add(self, outcome: RunOutcome) -> None:
        total = self._total
        self._total = replace(
            total,
            run_seconds=total.run_seconds + outcome.run_seconds,
            cpu_seconds=total.cpu_seconds + outcome.cpu_seconds,
            memory_peak_bytes=max(total.memory_peak_bytes, outcome.memory_peak_bytes),
        )

    def _outcome(self, broken: RunOutcome | None = None) -> RunOutcome:
        total = replace(self._total, log_bytes=self._log.total_bytes)
        if broken is None:
            return total
        return replace(
            total, reason=broken.reason, exit_code=broken.exit_code, detail=broken.detail
        )
