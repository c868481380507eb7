"""Runs the items of a range: one sandbox for many items, one process for each item.

Inside, `sandbox/item_loop.py` gets one item after the other and answers how it ended. An item that
exceeds a limit ends the sandbox: it gets that reason, and the rest continue in a new one. So limits
apply to each item, and a bad item never fails others. An item that changes shared input files ends
the sandbox, too, but keeps its outcome. After a recall, the running item gets no outcome, and no
further one starts. Items are not isolated from each other: they are code of one consumer. An image
may lack Python, so each item of an image has a sandbox of its own.

The output files of an item are collected before its outcome counts. The items share the task's log
limit; the output of each has a title line.
"""

import asyncio
import json
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec.structs import replace

from potluck.model.blob import Value
from potluck.model.task import EndReason
from potluck.model.task_spec import MOST_ITEM_BYTES, FunctionSpec, ItemInputs, ScriptSpec
from potluck.provider.attempt.item_blame import Blame, assign_blame
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.files.work_directory import AttemptFiles, InputFiles
from potluck.provider.functions.arguments import Arguments
from potluck.provider.one_line import one_line
from potluck.provider.sandbox import item_loop
from potluck.provider.sandbox.driver import (
    PYTHON,
    Confinement,
    Driver,
    InputFailed,
    RunHooks,
    RunOutcome,
    RunView,
    Started,
    ignore_start,
    outcome_of_code,
)
from potluck.wire.provider import ItemOutcome

_NOTHING = ItemInputs()
_OPEN = "open"
_DETAIL_CHARACTERS = 200
_ANSWER_BYTES = 64
# Every item has its own time limit; that of the sandbox is only a backstop.
_SPARE_SECONDS = 60.0
_ALL_DONE = RunOutcome(EndReason.COMPLETED, "all items have an outcome")
_SPOILT = RunOutcome(EndReason.SANDBOX_FAILED, "the remaining items need a new directory")
_INTERFERED = RunOutcome(EndReason.SIGNAL, "it interfered with the process that runs the items")


class ItemSource:
    """A context manager; enter it before use. Arrays without inputs yield empty ones."""

    def __init__(self, value: Value | None, inputs: InputFiles, items_total: int | None) -> None:
        self._value = value
        self._inputs = inputs
        self._items_total = items_total
        self._open = ExitStack()
        self._arguments: Arguments | None = None

    def __enter__(self) -> Self:
        """Raises InputFailed if its length is not the array's."""
        if self._value is not None:
            arguments = Arguments(self._value, self._inputs, self._items_total)
            self._arguments = self._open.enter_context(arguments)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def of(self, item: int) -> ItemInputs:
        if self._arguments is None:
            return _NOTHING
        data = self._arguments.of(item, MOST_ITEM_BYTES)
        try:
            return msgspec.json.decode(data, type=ItemInputs)
        except msgspec.DecodeError as error:
            raise InputFailed(f"the inputs of item {item} cannot be read: {error}") from error

    def message_of(self, item: int) -> bytes:
        """The message for the item loop in the sandbox: only the number, without inputs."""
        inputs = self.of(item)
        if inputs == _NOTHING:
            return b"%d" % item
        message = {"item": item, "environment": inputs.environment, "arguments": inputs.arguments}
        return json.dumps(message).encode()


class RangeRun:
    """Used once, by `to_its_end`."""

    stdin = -1

    def __init__(
        self, job: PreparedAttempt, confinement: Confinement, porter: AttemptFiles
    ) -> None:
        grant = job.grant
        self._limits = grant.limits
        self._is_script = isinstance(grant.spec, ScriptSpec)
        self._confinement = replace(
            confinement,
            environment={**confinement.environment, "POTLUCK_ITEMS": str(grant.items_total)},
        )
        self._porter = porter
        self._started: Started = job.started
        self._log = job.log
        self._recall = job.recall
        assert not isinstance(grant.spec, FunctionSpec), "functions are called, not run"
        self._given = ItemSource(grant.spec.inputs, job.inputs, grant.items_total)
        self._left = deque(item for part in grant.items for item in range(part.start, part.end))
        self._began: float | None = None  # when the first of `_left` was started
        self._is_spoilt = False  # an ended item changed the shared input files

    async def to_its_end(self, driver: Driver, record: Callable[[ItemOutcome], None]) -> RunOutcome:
        """`completed` if every item has an outcome; otherwise why the rest have none."""
        self._record = record
        with self._given:
            return await self._all(driver)

    async def _all(self, driver: Driver) -> RunOutcome:
        has_image = self._confinement.image is not None
        spent = _ALL_DONE
        while self._left:
            ended = await (self._alone(driver) if has_image else self._in_one_sandbox(driver))
            spent = _add_usage(spent, ended)
            if self._left and not self._is_spoilt:
                if self._blame(ended) is Blame.ALL:
                    return spent
                self._conclude(ended if has_image else _of_item(ended))
            self._started = ignore_start
        return replace(spent, reason=_ALL_DONE.reason, exit_code=0, detail=_ALL_DONE.detail)

    def _blame(self, ended: RunOutcome) -> Blame:
        has_begun = self._began is not None
        return assign_blame(
            ended.reason, self._recall.said, is_item_known=has_begun, can_go_on=False
        )

    async def _in_one_sandbox(self, driver: Driver) -> RunOutcome:
        self._began, self._is_spoilt = None, False
        self._porter.begin(None)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.setblocking(False)
        self.stdin = theirs.fileno()
        scope = item_loop.ENCLOSED if driver.encloses_processes else _OPEN
        with self._channel, theirs:
            return await driver.run(
                self._command(scope),
                self._log.write,
                RunHooks(self._started, self, self._recall, self._porter),
            )

    async def _alone(self, driver: Driver) -> RunOutcome:
        """Runs the next item in a sandbox of its own."""
        item = self._left[0]
        inputs, shared = self._given.of(item), self._confinement
        self._porter.begin(item)
        await self._log.begin_item(item)
        self._began = time.monotonic()
        return await driver.run(
            replace(
                shared,
                command=shared.command if inputs.arguments is None else inputs.arguments,
                environment={**shared.environment, **inputs.environment, "POTLUCK_ITEM": str(item)},
            ),
            self._log.write,
            RunHooks(self._started, recall=self._recall, errand=self._porter),
        )

    def _command(self, scope: str) -> Confinement:
        words, interpreter, manner = self._confinement.command, PYTHON, item_loop.PROGRAM
        if self._is_script:
            words, interpreter, manner = words[2:], words[0], item_loop.SCRIPT
        source = Path(item_loop.__file__).read_text()
        return replace(
            self._confinement,
            command=(interpreter, "-u", "-c", source, scope, manner, *words),
            own_processes=1,
            seconds=self._limits.run_seconds * len(self._left) + _SPARE_SECONDS,
        )

    async def talk(self, view: RunView) -> RunOutcome | None:
        """Runs one item after the other, until all are done or one ends the sandbox."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._channel, self._receive)
        has_ended = False  # an item, in this sandbox
        try:
            while self._left:
                self._answer: asyncio.Future[bytes | RunOutcome] = loop.create_future()
                answer = await self._run_item(self._left[0])
                if self._recall.said is not None:
                    return self._recall.said
                if isinstance(answer, RunOutcome) or not answer:
                    return answer or None
                if answer == item_loop.UNRESTORABLE and has_ended:
                    self._is_spoilt = True
                    self._porter.begin(None)
                    return _SPOILT
                await view.drained()
                if (touched := view.touched()) is not None:
                    return touched
                await self._porter.collect(view.work)
                self._porter.begin(None)
                self._conclude(_answered(answer))
                has_ended = True
        finally:
            loop.remove_reader(self._channel)
        return _ALL_DONE

    async def _run_item(self, item: int) -> bytes | RunOutcome:
        """The loop's answer, or the limit it exceeded; empty if the loop has ended."""
        self._began = time.monotonic()
        self._porter.begin(item)
        await self._log.begin_item(item)
        try:
            self._channel.send(self._given.message_of(item))
            async with asyncio.timeout(self._limits.run_seconds):
                return await self._answer
        except TimeoutError:
            seconds = self._limits.run_seconds
            return RunOutcome(EndReason.TIME_LIMIT, f"it ran longer than its {seconds:g} s")
        except InputFailed as failure:
            return failure.touched
        except OSError:
            return b""

    def _receive(self) -> None:
        try:
            answer = self._channel.recv(_ANSWER_BYTES)
        except OSError:
            answer = b""
        if not answer:
            asyncio.get_running_loop().remove_reader(self._channel)
        self._resolve(answer)

    def _resolve(self, answer: bytes | RunOutcome) -> None:
        if not self._answer.done():
            self._answer.set_result(answer)

    def _conclude(self, outcome: RunOutcome) -> None:
        assert self._began is not None
        has_failed = outcome.reason is not EndReason.COMPLETED
        detail = outcome.detail if has_failed else ""
        seconds = time.monotonic() - self._began
        item = self._left.popleft()
        self._record(
            ItemOutcome(
                item,
                outcome.reason,
                seconds,
                outcome.exit_code,
                one_line(detail, _DETAIL_CHARACTERS),
                last_lines=self._log.last_lines() if has_failed else "",
            )
        )


def _answered(answer: bytes) -> RunOutcome:
    try:
        return outcome_of_code(max(-255, min(255, int(answer))))
    except ValueError:
        return _INTERFERED


def _of_item(ended: RunOutcome) -> RunOutcome:
    """The end of the sandbox as the outcome of the item that ran in it."""
    return _INTERFERED if ended.reason is EndReason.COMPLETED else ended


def _add_usage(before: RunOutcome, ended: RunOutcome) -> RunOutcome:
    return replace(
        ended,
        run_seconds=before.run_seconds + ended.run_seconds,
        cpu_seconds=before.cpu_seconds + ended.cpu_seconds,
        memory_peak_bytes=max(before.memory_peak_bytes, ended.memory_peak_bytes),
        log_bytes=before.log_bytes + ended.log_bytes,
    )
