"""Queries drivers in child processes: a vendor's library that hangs or crashes ends only those."""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from typing import TypeVar

import msgspec
import structlog

from potluck.local.child_process import environment_without_secrets
from potluck.provider.detect.report import RouteOutcome

log = structlog.get_logger()
T = TypeVar("T")

# More than the longest answer about the most devices.
_LINE_BYTES = 2**22
# A process that hangs in its driver may survive a kill. It is left behind, and no other is started
# meanwhile: otherwise a driver that hangs over night would leave thousands.
_END_SECONDS = 2.0


class Unanswered(Exception):
    """There was no answer, or none that can be read."""

    def __init__(self, outcome: RouteOutcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


class Child:
    """A module of Potluck in a child process that answers questions, one line of JSON each.

    The first question starts it. After a timeout, a crash or an unreadable answer it is ended, and
    the next question starts a new one, once the old one has really ended.
    """

    def __init__(self, module: str) -> None:
        self._command = python_module(module)
        self._process: Process | None = None
        self._left_behind: Process | None = None
        # Answers carry no id: one question at a time.
        self._turn = asyncio.Lock()

    async def ask(self, question: object, answer: type[T], timeout_seconds: float) -> T:
        """The answer, or Unanswered."""
        async with self._turn:
            try:
                async with asyncio.timeout(timeout_seconds):
                    line = await self._exchange(msgspec.json.encode(question) + b"\n")
                return msgspec.json.decode(line, type=answer)
            except BaseException as error:
                # Also after a cancellation: a late answer would be taken for the next one's.
                await self._end()
                if unanswered := _translated(error, timeout_seconds):
                    raise unanswered from error
                raise

    async def close(self) -> None:
        async with self._turn:
            await self._end()

    async def _exchange(self, line: bytes) -> bytes:
        if self._left_behind is not None and self._left_behind.returncode is None:
            raise Unanswered(
                RouteOutcome.TIMED_OUT, "Its process hangs in the driver and cannot be ended."
            )
        if self._process is None:
            self._process = await _start(self._command, stdin=PIPE)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with suppress(ConnectionError):  # it has ended; the read below gives a better error
            process.stdin.write(line)
            await process.stdin.drain()
        answer = await process.stdout.readline()
        if not answer.endswith(b"\n"):
            raise Unanswered(RouteOutcome.FAILED, f"It {how_it_ended(await process.wait())}.")
        return answer

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await _end(process)
            self._left_behind = process


async def output_of(command: tuple[str, ...], timeout_seconds: float) -> str:
    """The command's output, or Unanswered."""
    process: Process | None = None
    try:
        async with asyncio.timeout(timeout_seconds):
            process = await _start(command, stdin=DEVNULL)
            output, _ = await process.communicate()
    except (OSError, TimeoutError) as error:
        unanswered = _translated(error, timeout_seconds)
        assert unanswered is not None
        raise unanswered from error
    finally:
        if process is not None:
            await _end(process)
    if process.returncode:
        raise Unanswered(RouteOutcome.FAILED, f"It {how_it_ended(process.returncode)}.")
    return output.decode("utf-8", "replace")


def python_module(module: str, *arguments: str) -> tuple[str, ...]:
    """The command; -P keeps the working directory off the import path."""
    return (sys.executable, "-P", "-m", module, *arguments)


def how_it_ended(returncode: int) -> str:
    """The second half of a sentence."""
    if returncode >= 0:
        return f"ended with status {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"


async def _start(command: tuple[str, ...], stdin: int) -> Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=stdin,
        stdout=PIPE,
        stderr=DEVNULL,
        limit=_LINE_BYTES,
        env=environment_without_secrets(),
    )


async def _end(process: Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            # Also waits for its pipes: descendants may hold them open.
            await process.communicate()
            return
    log.warning("a driver query process cannot be ended", pid=process.pid)


def _translated(error: BaseException, timeout_seconds: float) -> Unanswered | None:
    match error:
        case TimeoutError():
            detail = f"It did not answer within {timeout_seconds:g} s, and was ended."
            return Unanswered(RouteOutcome.TIMED_OUT, detail)
        case FileNotFoundError():
            return Unanswered(RouteOutcome.MISSING, f"There is no {error.filename}.")
        case OSError():
            return Unanswered(RouteOutcome.FAILED, f"It could not be queried: {error}.")
        case msgspec.DecodeError() | ValueError():
            return Unanswered(RouteOutcome.FAILED, f"Its answer is unreadable: {error}.")
    return None
