"""One attempt's use of an interpreter: its frames, time limits, resource usage and log.

Exceptions of functions arrive from the sandbox as untrusted plain data.
"""

import asyncio
import struct
import time
from collections.abc import Awaitable, Iterable
from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.task import EndReason
from potluck.model.task_spec import FunctionSpec
from potluck.provider.attempt.kinds import PreparedAttempt
from potluck.provider.attempt.last_lines import last_lines
from potluck.provider.attempt.mask import Mask
from potluck.provider.functions import interpreter_main
from potluck.provider.functions.arguments import open_value, read_pieces
from potluck.provider.functions.channel import INTERFERED, ChannelClosed, Frame
from potluck.provider.functions.interpreter import Interpreter
from potluck.provider.one_line import one_line
from potluck.provider.sandbox.driver import ResourceUse, RunOutcome
from potluck.wire.plain_values import PlainError, decode, encode

_DETAIL_CHARACTERS = 200
_MOST_DIGITS = 7  # of an item
_ERROR_FIELDS = ("type", "message", "traceback", "stderr")
_UNLOADED = RunOutcome(EndReason.EXCEPTION, "the function could not be loaded")


def error_line(error: bytes) -> str:
    """Type and message in one line; empty if the data is malformed."""
    try:
        fields = decode(error)
        return one_line(f"{fields['type']}: {fields['message']}", _DETAIL_CHARACTERS)
    except (PlainError, KeyError, TypeError):
        return ""


def error_lines(error: bytes) -> str:
    """The end of what the call wrote to stderr, and its exception."""
    try:
        fields = decode(error)
        return last_lines(str(fields["stderr"]), error_line(error))
    except (PlainError, KeyError, TypeError):
        return last_lines("", error_line(error))


def mask_error(error: bytes, mask: Mask) -> bytes:
    """Masks secrets: the error is stored here, and the node's owner sees its first line."""
    if not mask:
        return error
    try:
        fields = decode(error)
        return encode({name: mask.text(fields[name]) for name in _ERROR_FIELDS})
    except (PlainError, KeyError, TypeError, AttributeError):
        return error


def shorten_error(error: bytes) -> bytes:
    """A short form for items that share an error which is reported in full once."""
    try:
        fields = decode(error)
        kind, message = (one_line(fields[name], _DETAIL_CHARACTERS) for name in ("type", "message"))
        return platform_error(kind, message)
    except (PlainError, KeyError, TypeError, AttributeError):
        return platform_error("Exception", "")


def platform_error(kind: str, message: str) -> bytes:
    """An error of the platform in the same format."""
    return encode({"type": kind, "message": message, "traceback": "", "stderr": ""})


class NotLoaded(Exception):
    """The function could not be unpickled; `error` is the exception as plain data."""

    def __init__(self, error: bytes) -> None:
        super().__init__()
        self.error = error


class ItemsAnswer(Struct, frozen=True):
    """The values of items from `start` on, as an item file, or the error of one item."""

    start: int
    seconds: float
    data: bytes
    is_error: bool
    files: int  # number of the folder with their files; 0: none


class InterpreterSession:
    """Call its methods within `Interpreter.race`."""

    def __init__(self, job: PreparedAttempt, spec: FunctionSpec, interpreter: Interpreter) -> None:
        self._job = job
        self._spec = spec
        self._interpreter = interpreter
        self._began = time.monotonic()
        # The first attempt pays for the start; usage between attempts is not charged.
        self._before = interpreter.view.spent() if interpreter.has_served else ResourceUse(0.0, 0)
        self._mask = Mask(job.grant.secrets.values())
        seconds = job.grant.limits.run_seconds
        self._run_seconds = seconds
        self.begin_clock()
        self._too_long = RunOutcome(EndReason.TIME_LIMIT, f"it ran longer than its {seconds:g} s")

    async def begin(self, is_careful: bool, flush_seconds: float) -> None:
        """Loads the function if necessary, and announces the attempt."""
        interpreter, grant = self._interpreter, self._job.grant
        if not interpreter.has_served:
            with closing(open_value(self._spec.code, self._job.inputs)) as code:
                await self.send(b"L", code.size, read_pieces(code, 0, code.size))
            await self._wait_until_loaded()
        is_array = grant.items_total is not None
        flags = (
            interpreter_main.CAREFUL * is_careful
            | interpreter_main.ARRAY * is_array
            | interpreter_main.PICKLED * self._spec.pickles_results
            | interpreter_main.FRESH * (not interpreter.has_served)
            | interpreter_main.TITLED * (grant.linger_seconds is not None)
        )
        variables = {"POTLUCK_TASK_ID": grant.task_id, "POTLUCK_ATTEMPT_ID": grant.attempt_id}
        if is_array:
            variables["POTLUCK_ITEMS"] = str(grant.items_total)
        lines = "\0".join(f"{name}={value}" for name, value in variables.items()).encode()
        payload = interpreter_main.JOB.pack(flags, flush_seconds) + lines
        await self.send(b"J", len(payload), (payload,))

    def begin_clock(self) -> None:
        """Restarts the time limit, for the next item."""
        self._until = time.monotonic() + self._run_seconds

    async def send(self, kind: bytes, size: int, parts: Iterable[bytes]) -> None:
        await self.in_time(self._interpreter.send(kind, size, parts))

    async def in_time(self, sending: Awaitable[None]) -> None:
        """Waits for a send within the time limit of an item."""
        try:
            async with asyncio.timeout(self._until - time.monotonic()):
                await sending
        except TimeoutError:
            self._interpreter.touch(self._too_long)
            raise ChannelClosed from None

    async def _wait_until_loaded(self) -> None:
        self.begin_clock()
        frame = await self._next(0.0)
        if frame.kind == b"X" and len(frame.data) <= interpreter_main.MOST_ERROR_BYTES:
            self._interpreter.touch(_UNLOADED)
            raise NotLoaded(mask_error(frame.data, self._mask))
        if frame.kind != b"R":
            raise self.nonsense()

    async def hear(self, spare_seconds: float = 0.0) -> ItemsAnswer | int:
        """The next answer, or the number of the running item. Waits for the time limit of an item,
        plus `spare_seconds` where answers are batched."""
        frame = await self._next(spare_seconds)
        try:
            if frame.kind == b"A":
                return int(interpreter_main.AT.unpack(frame.data)[0])
            files, seconds, start = interpreter_main.ANSWER.unpack_from(frame.data)
        except struct.error:
            raise self.nonsense() from None
        if frame.kind not in (b"V", b"F") or not 0 <= seconds < 1e9:
            raise self.nonsense()
        data = frame.data[interpreter_main.ANSWER.size :]
        if frame.kind == b"F" and len(data) > interpreter_main.MOST_ERROR_BYTES:
            raise self.nonsense()
        if frame.kind == b"F":
            return ItemsAnswer(
                start, seconds, mask_error(data, self._mask), is_error=True, files=files
            )
        return ItemsAnswer(start, seconds, data, is_error=False, files=files)

    def account(self, ended: RunOutcome, log_bytes: int = 0) -> RunOutcome:
        """Adds this attempt's usage of an interpreter that has ended."""
        return self._account(
            ended, ResourceUse(ended.cpu_seconds, ended.memory_peak_bytes), log_bytes
        )

    def account_now(self, ended: RunOutcome, log_bytes: int = 0) -> RunOutcome:
        """Adds this attempt's usage so far."""
        return self._account(ended, self._interpreter.view.spent(), log_bytes)

    def _account(self, ended: RunOutcome, spent: ResourceUse, log_bytes: int) -> RunOutcome:
        return replace(
            ended,
            run_seconds=time.monotonic() - self._began,
            cpu_seconds=max(0.0, spent.cpu_seconds - self._before.cpu_seconds),
            memory_peak_bytes=spent.memory_peak_bytes,
            log_bytes=log_bytes,
        )

    async def _next(self, spare_seconds: float) -> Frame:
        left_seconds = self._until + spare_seconds - time.monotonic()
        return await self._interpreter.receive(left_seconds, self._too_long)

    def nonsense(self) -> ChannelClosed:
        """Ends the interpreter after a malformed frame; returns the exception to raise."""
        self._interpreter.touch(INTERFERED)
        return ChannelClosed()


class TitledLog:
    """Divides output by the titles of items, which an interpreter writes before it."""

    def __init__(self, job: PreparedAttempt) -> None:
        self._log = job.log
        self._held: dict[str, bytes] = {}  # the end of a stream that may begin a title
        self.total_bytes = 0

    async def write(self, stream: str, data: bytes) -> None:
        self.total_bytes += len(data)
        data = self._held.pop(stream, b"") + data
        title = interpreter_main.TITLE
        while (at := data.find(title)) >= 0:
            await self._write(stream, data[:at])
            line, newline, data = data[at:].partition(b"\n")
            number = line[len(title) :]
            if not newline and len(line) <= len(title) + _MOST_DIGITS:
                self._held[stream] = line
                return
            if newline and number.isdigit():
                await self._log.begin_item(int(number[:_MOST_DIGITS]))
            else:
                await self._write(stream, line + newline)
        partial_size = next(
            (size for size in range(len(title), 0, -1) if data.endswith(title[:size])), 0
        )
        if partial_size:
            self._held[stream] = data[len(data) - partial_size :]
            data = data[: len(data) - partial_size]
        await self._write(stream, data)

    async def close(self) -> None:
        for stream, data in self._held.items():
            await self._write(stream, data)
        self._held.clear()

    async def _write(self, stream: str, data: bytes) -> None:
        if data:
            await self._log.write(stream, data)


class SessionLog:
    """Counts the output of a session."""

    def __init__(self, job: PreparedAttempt) -> None:
        self._log = job.log
        self.total_bytes = 0

    async def write(self, stream: str, data: bytes) -> None:
        self.total_bytes += len(data)
        await self._log.write(stream, data)
