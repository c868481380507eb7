"""A single call of a function."""

import asyncio

from msgspec.structs import replace

from potluck.model.blob import INLINE_BYTES, Value
from potluck.model.task import EndReason, ItemRange
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.files.work_directory import AttemptFiles
from potluck.provider.functions.arguments import Arguments
from potluck.provider.functions.channel import ChannelClosed
from potluck.provider.functions.interpreter import Interpreter, InterpreterBroken, WarmKey
from potluck.provider.functions.interpreter_pool import Borrower, WarmPool
from potluck.provider.functions.session import (
    InterpreterSession,
    ItemsAnswer,
    NotLoaded,
    SessionLog,
    error_line,
)
from potluck.provider.sandbox.driver import Confinement, RunOutcome, cancel_all
from potluck.wire.item_file import index_bytes

_ONE = ItemRange(0, 1)


class FunctionCall:
    """A single call; run `to_its_end` once."""

    def __init__(
        self, job: PreparedAttempt, spec: FunctionSpec, arguments: Arguments, flush_seconds: float
    ) -> None:
        self._job = job
        self._spec = spec
        self._arguments = arguments
        self._flush_seconds = flush_seconds
        self._porter = AttemptFiles(job, {})
        self._log = SessionLog(job)

    async def to_its_end(
        self, pool: WarmPool, key: WarmKey, confinement: Confinement
    ) -> RunOutcome:
        attempt_id = self._job.grant.attempt_id
        borrower = Borrower(attempt_id, self._log.write, self._porter, self._job.recall)
        try:
            async with pool.lend(key, confinement, borrower) as interpreter:
                return await self._run(interpreter)
        except InterpreterBroken as broken:
            return broken.ended

    async def _run(self, interpreter: Interpreter) -> RunOutcome:
        await self._job.started()
        session = InterpreterSession(self._job, self._spec, interpreter)
        try:
            ended, data = await interpreter.race(self._call_with_checkpoints(interpreter, session))
            interpreter.served_items += 1
        except InterpreterBroken as broken:
            return session.account(broken.ended, self._log.total_bytes)
        return replace(ended, value=await self._store_value(data))

    async def _call_with_checkpoints(
        self, interpreter: Interpreter, session: InterpreterSession
    ) -> tuple[RunOutcome, bytes]:
        await self._porter.note_before_call(interpreter.view.work)
        keeping = asyncio.create_task(self._porter.during(interpreter.view.work))
        try:
            reason, data = await self._call(interpreter, session)
        finally:
            await cancel_all(keeping)
        detail = error_line(data) if reason is EndReason.EXCEPTION else ""
        exit_code = 0 if reason is EndReason.COMPLETED else None
        ended = RunOutcome(reason, detail, exit_code)
        return session.account_now(ended, self._log.total_bytes), data

    async def _call(
        self, interpreter: Interpreter, session: InterpreterSession
    ) -> tuple[EndReason, bytes]:
        try:
            await session.begin(is_careful=False, flush_seconds=self._flush_seconds)
            (batch,) = self._arguments.batches(_ONE)
            arguments = self._arguments
            session.begin_clock()
            await session.send(b"I", arguments.size(batch), arguments.parts(batch))
            answer = await self._answer(session)
        except NotLoaded as failure:
            answer = ItemsAnswer(0, 0.0, failure.error, is_error=True, files=0)
        await self._check_limits(interpreter)
        reason = EndReason.EXCEPTION if answer.is_error else EndReason.COMPLETED
        if answer.is_error:
            await self._porter.after(interpreter.view.work, reason)
        elif answer.files:
            await self._porter.collect(interpreter.view.work)
        await self._porter.keep_new_of_call(interpreter.view.work, None)
        return reason, answer.data if answer.is_error else answer.data[index_bytes(1) :]

    async def _answer(self, session: InterpreterSession) -> ItemsAnswer:
        while isinstance(answer := await session.hear(), int):
            pass
        return answer

    async def _check_limits(self, interpreter: Interpreter) -> None:
        """A stop request or an exceeded limit takes precedence over the returned value."""
        await interpreter.view.drained()
        if self._job.recall.said is not None:
            raise ChannelClosed
        if (exceeded := interpreter.view.touched()) is not None:
            interpreter.touch(exceeded)
            raise ChannelClosed

    async def _store_value(self, data: bytes) -> Value:
        outbox = self._job.freight.outbox
        if len(data) <= INLINE_BYTES:
            return Value(data)
        value = await asyncio.to_thread(outbox.keep_value, data)
        outbox.announce()
        return value
