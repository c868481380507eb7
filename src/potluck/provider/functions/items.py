"""A range of a function's items: as many as possible in one interpreter, in few frames.

Answers come in the order of the items. An item that breaks the interpreter gets the outcome of
that, and the rest go on in a fresh one. Which item it was is known if the last thing that was heard
is that it runs; else those that may have been it are done once more, with care: each is announced,
and sent only when the one before it has its outcome.
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
from potluck.provider.attempt.item_blame import Blame, blamed
from potluck.provider.attempt.outcome_buffer import MOST_OUTCOMES, Outcomes
from potluck.provider.attempt.types import PreparedAttempt
from potluck.provider.event import ItemsEnded
from potluck.provider.files.work_directory import Porter
from potluck.provider.functions.arguments import MOST_ITEMS, Arguments
from potluck.provider.functions.channel import ChannelClosed
from potluck.provider.functions.failure import error_line, platform_error, shorten_error
from potluck.provider.functions.interpreter import Interpreter, InterpreterBroken
from potluck.provider.functions.interpreter_key import WarmKey
from potluck.provider.functions.interpreter_main import COLLECTED
from potluck.provider.functions.interpreter_pool import Borrower, WarmPool
from potluck.provider.functions.session import (
    InterpreterSession,
    ItemsAnswer,
    NotLoaded,
    SessionLog,
)
from potluck.provider.one_line import one_line
from potluck.provider.sandbox.driver import (
    Confinement,
    Recalled,
    RunOutcome,
    cancel_all,
)
from potluck.wire.provider import ItemOutcome, ReturnedItems

_DETAIL_CHARACTERS = 200
# Below this an item's clock is too short to be told late.
_SHORT_SECONDS = 1.0
_ALL_DONE = "all items have an outcome"


class FunctionRange:
    """Used once: `to_its_end`."""

    def __init__(
        self, job: PreparedAttempt, spec: FunctionSpec, arguments: Arguments, flush_seconds: float
    ) -> None:
        self._job = job
        self._spec = spec
        self._arguments = arguments
        self._flush_seconds = flush_seconds
        self._porter = Porter(job, {})
        self._log = SessionLog(job, _nobody_is_to_blame)
        self._outcomes = Outcomes(job.grant.attempt_id, self._tell, flush_seconds)
        self._left = deque(job.grant.items)
        self._is_careful = job.grant.limits.run_seconds < _SHORT_SECONDS
        self._at: int | None = None  # the item that runs, if it has been told
        self._taken: deque[int] = deque()  # places whose files we have, and the interpreter still
        self._heard = asyncio.Event()  # something that whoever sends may wait for
        self._spent = RunOutcome(EndReason.COMPLETED, _ALL_DONE, 0)
        self._has_started = self._has_concluded = False  # any; one in this interpreter

    async def to_its_end(
        self, pool: WarmPool, key: WarmKey, confinement: Confinement
    ) -> RunOutcome:
        """`completed` when every item has an outcome; otherwise what keeps the rest from one."""
        attempt_id = self._job.grant.attempt_id
        borrower = Borrower(attempt_id, self._log.write, self._porter, self._job.recall)
        try:
            while self._left:
                self._at, self._has_concluded = None, False
                self._taken.clear()
                self._porter.begin(None)  # a fresh one counts its places from the beginning
                broken = await self._in_one(pool, key, confinement, borrower)
                if broken is not None and not self._goes_on_after(broken):
                    return self._all_spent(broken)
            return self._all_spent()
        finally:
            self._outcomes.flush()

    async def _in_one(
        self, pool: WarmPool, key: WarmKey, confinement: Confinement, borrower: Borrower
    ) -> RunOutcome | None:
        """How the interpreter broke, if it did."""
        try:
            async with pool.lend(key, confinement, borrower) as interpreter:
                return await self._in(interpreter)
        except InterpreterBroken as broken:
            return broken.ended

    async def _in(self, interpreter: Interpreter) -> RunOutcome | None:
        if not self._has_started:
            self._has_started = True
            await self._job.started()
        visit = InterpreterSession(self._job, self._spec, interpreter)
        try:
            self._add(await interpreter.race(self._serve(interpreter, visit)))
        except InterpreterBroken as broken:
            self._add(visit.account(broken.ended))
            return broken.ended
        return None

    async def _serve(self, interpreter: Interpreter, visit: InterpreterSession) -> RunOutcome:
        """What has been spent."""
        try:
            await visit.begin(self._is_careful, self._flush_seconds)
            await self._talk(interpreter, visit)
        except NotLoaded as failure:
            await self._fail_all(failure.error)
        return visit.account_now(self._spent)

    async def _talk(self, interpreter: Interpreter, visit: InterpreterSession) -> None:
        sending = asyncio.create_task(self._send(interpreter, list(self._left)))
        hearing = asyncio.create_task(self._hear_all(interpreter, visit))
        try:
            await asyncio.wait({sending, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
            await hearing
            await visit.in_time(sending)
        finally:
            await cancel_all(sending, hearing)
        await interpreter.view.drained()

    async def _send(self, interpreter: Interpreter, left: list[ItemRange]) -> None:
        """All that is sent, one frame after the other, until every item has been answered.

        Raises InputFailed. That nobody takes it any more is noticed by who hears the answers.
        """
        with suppress(ChannelClosed):
            most_items = 1 if self._is_careful else MOST_ITEMS
            for part in left:
                for batch in self._arguments.batches(part, most_items):
                    await self._send_taken(interpreter)
                    size = self._arguments.size(batch)
                    await interpreter.send(b"I", size, self._arguments.parts(batch))
                    if self._is_careful:
                        await self._concluded(interpreter, batch.end)
            await self._concluded(interpreter, left[-1].end)
            await self._send_taken(interpreter)

    async def _concluded(self, interpreter: Interpreter, end: int) -> None:
        """Returns when the items before this one have their outcome."""
        while self._left and self._left[0].start < end:
            self._heard.clear()
            await self._send_taken(interpreter)
            await self._heard.wait()

    async def _send_taken(self, interpreter: Interpreter) -> None:
        while self._taken:
            number = str(self._taken.popleft()).encode()
            await interpreter.send(b"D", len(number), (number,))

    async def _hear_all(self, interpreter: Interpreter, visit: InterpreterSession) -> None:
        visit.begin_clock()
        while self._left:
            heard = await visit.hear(0.0 if self._is_careful else 2 * self._flush_seconds)
            if isinstance(heard, int):
                self._note(visit, heard)
                continue
            count = self._count(visit, heard)
            if self._is_careful:
                await self._check_walls(interpreter, visit)
            self._at = None
            if heard.files:
                await self._take_files(interpreter, heard.files)
            await self._conclude(heard, count)
            await self._until_there_is_room()
            self._heard.set()
            interpreter.served_items += count
            visit.begin_clock()

    async def _until_there_is_room(self) -> None:
        """Whoever calls it back does not wait for the server: the rest inside is little."""
        backlog = self._job.freight.backlog
        if not backlog.has_room:
            with suppress(Recalled):
                await self._job.recall.unless(backlog.room())

    def _note(self, visit: InterpreterSession, item: int) -> None:
        """Its time begins; each is told once."""
        is_new = self._at is None or item > self._at
        if not is_new or not any(part.start <= item < part.end for part in self._left):
            raise visit.nonsense()
        self._at = item
        visit.begin_clock()

    def _count(self, visit: InterpreterSession, answer: ItemsAnswer) -> int:
        """How many items it is the answer of: the next ones, of which it must be."""
        count = 1 if answer.is_error else int.from_bytes(answer.data[:8], "little")
        is_next = answer.start == self._left[0].start and 0 < count <= len(self._left[0])
        if not is_next:
            raise visit.nonsense()
        return count

    async def _check_walls(self, interpreter: Interpreter, visit: InterpreterSession) -> None:
        await interpreter.view.drained()
        if (touched := interpreter.view.touched()) is not None:
            interpreter.touch(touched)
            raise visit.nonsense()

    async def _take_files(self, interpreter: Interpreter, number: int) -> None:
        """Before the outcomes count; then there is room again, which whoever sends says."""
        await self._porter.collect(interpreter.view.work, f"{COLLECTED}{number}")
        self._taken.append(number)

    async def _conclude(self, answer: ItemsAnswer, count: int) -> None:
        start = answer.start
        if answer.is_error:
            self._add_failure(start, answer.seconds, answer.data)
        else:
            try:
                values = await self._kept(answer.data)
            except StaleLease:
                pass  # whoever takes leases back says so
            except PotluckError as error:
                told = platform_error(type(error).__name__, f"{error.detail} {error.hint}")
                for item in range(start, start + count):
                    self._add_failure(item, answer.seconds / count, told)
            else:
                returned = ReturnedItems(start, start + count, answer.seconds, values)
                self._tell(ItemsEnded(self._job.grant.attempt_id, (), (returned,)))
        self._pop(count)

    def _tell(self, told: ItemsEnded) -> None:
        self._job.freight.backlog.add(told)
        self._job.tell(told)

    async def _kept(self, data: bytes) -> Value:
        """Large ones have to be with the server before they are named."""
        if len(data) <= INLINE_BYTES:
            return Value(data)
        digest = await asyncio.to_thread(hashlib.sha256, data)
        blob = BlobRef(digest.hexdigest(), len(data))

        def read(start: int, size: int) -> bytes:
            return data[start : start + size]

        await self._job.freight.courier.send(blob, read)
        return Value(blob=blob)

    def _add_failure(self, item: int, seconds: float, error: bytes, line: str = "") -> None:
        detail = line or error_line(error)
        self._outcomes.add(ItemOutcome(item, EndReason.EXCEPTION, seconds, None, detail, error))

    async def _fail_all(self, error: bytes) -> None:
        """None of them can be called. The whole of it is told once for each part."""
        line, short = error_line(error), shorten_error(error)
        for part in self._left:
            self._add_failure(part.start, 0.0, error, line)
            for item in range(part.start + 1, part.end):
                self._add_failure(item, 0.0, short, line)
                if item % MOST_OUTCOMES == 0:
                    await asyncio.sleep(0)
        self._left.clear()

    def _goes_on_after(self, broken: RunOutcome) -> bool:
        """Whether an item is to blame, or at least can be found."""
        blame = blamed(
            broken.reason,
            self._job.recall.said,
            is_item_known=self._at is not None and self._at == self._left[0].start,
            can_go_on=self._has_started and (self._has_concluded or not self._is_careful),
        )
        if blame is Blame.ITEM:
            detail = one_line(broken.detail, _DETAIL_CHARACTERS)
            parts = (broken.reason, broken.run_seconds, broken.exit_code, detail)
            self._outcomes.add(ItemOutcome(self._left[0].start, *parts))
            self._pop(1)
        self._is_careful = True
        return blame is not Blame.ALL

    def _pop(self, count: int) -> None:
        self._has_concluded = True
        first = self._left.popleft()
        if len(first) > count:
            self._left.appendleft(ItemRange(first.start + count, first.end))

    def _add(self, one: RunOutcome) -> None:
        total = self._spent
        self._spent = replace(
            total,
            run_seconds=total.run_seconds + one.run_seconds,
            cpu_seconds=total.cpu_seconds + one.cpu_seconds,
            memory_peak_bytes=max(total.memory_peak_bytes, one.memory_peak_bytes),
        )

    def _all_spent(self, broken: RunOutcome | None = None) -> RunOutcome:
        spent = replace(self._spent, log_bytes=self._log.total_bytes)
        if broken is None:
            return spent
        return replace(
            spent, reason=broken.reason, exit_code=broken.exit_code, detail=broken.detail
        )


async def _nobody_is_to_blame(_: RunOutcome) -> None:
    """Items print into one log; where that is full the rest is dropped, and fails nobody."""
