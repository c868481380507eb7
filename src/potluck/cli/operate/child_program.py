"""A part of the platform (the server, a provider) as a child process.

It has a session of its own, so that Ctrl-C reaches only `up`, which then ends the parts in order.
On Linux the kernel ends it when `up` dies, even by kill -9. What it says on stdout (JSON lines) and
how it ends go to the inbox; what it logs goes to a file.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
from msgspec import Struct

from potluck.local.child_process import ends_with_us, without_secrets
from potluck.model.error import PotluckError, StartFailed
from potluck.wire.problem import Problem, to_error

TAIL_LINES = 12
_TAIL_BYTES = 16_384
_LAST_WORDS_SECONDS = 1.0
# What may carry a password or a key, and is for the server alone.
_OF_THE_SERVER = (
    "POTLUCK_DATABASE_URL",
    "POTLUCK_REDIS_URL",
    "POTLUCK_CHAIN_RPC_URLS",
    "POTLUCK_ENCRYPTION_KEY",
    "POTLUCK_ENCRYPTION_KEY_COMMAND",
)


class ProgramLine(Struct, frozen=True):
    """A part wrote a line of JSON."""

    part: str
    values: dict[str, Any]


class ProgramEnded(Struct, frozen=True):
    """A part is gone."""

    part: str
    status: int


class Signalled(Struct, frozen=True):
    """Somebody asked `up` to stop."""


class ServerMoved(Struct, frozen=True):
    """The self-check is somewhere else now."""

    stage: str


class Checked(Struct, frozen=True):
    """The self-check came to an end, or to an error."""

    outcome: Any


Happening = ProgramLine | ProgramEnded | Signalled | ServerMoved | Checked
Inbox = SimpleQueue[Happening]


class ChildProgram:
    """One child process, from start to end."""

    def __init__(self, name: str, log: Path, inbox: Inbox):
        self.name = name
        self.log = log
        self._inbox = inbox
        self.has_served = False  # it was healthy at least once
        self.is_to_end = False  # its owner told it to, when its work is done
        self._process: subprocess.Popen[bytes] | None = None
        self._problem: Problem | None = None

    def start(self, command: str, arguments: Sequence[str], variables: Mapping[str, str]) -> None:
        """`potluck COMMAND`, with a fresh log; the one before is kept beside it."""
        self._problem, self.is_to_end = None, False
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.previous"))
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "potluck", command, *arguments, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**_variables(command), **variables, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                preexec_fn=ends_with_us(signal.SIGTERM),
            )
        threading.Thread(target=self._attend, args=(self._process,), daemon=True).start()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it and whatever it started, at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def failure(self, status: int) -> PotluckError:
        """Why it ended: what it said itself, else the end of its log."""
        if self._problem is not None:
            return to_error(self._problem)
        return StartFailed(
            f"The {self.name} ended {ended_how(status)}. The end of its log:\n{self.tail()}",
            f"The whole log is in {self.log}.",
        )

    def tail(self) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError as error:
            lines = [f"(it can not be read: {error.strerror})"]
        return "\n".join(f"    {line}" for line in lines[-TAIL_LINES:]) or "    (it is empty)"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _attend(self, process: "subprocess.Popen[bytes]") -> None:
        listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        listener.start()
        status = process.wait()
        # Its last words come before its end, but a child of its own may hold the pipe open.
        listener.join(_LAST_WORDS_SECONDS)
        self._inbox.put(ProgramEnded(self.name, status))

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._hear(line)

    def _hear(self, line: bytes) -> None:
        try:
            values = msgspec.json.decode(line, type=dict[str, Any])
            if "error" in values:
                self._problem = msgspec.convert(values["error"], Problem)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        self._inbox.put(ProgramLine(self.name, values))


def _variables(command: str) -> dict[str, str]:
    """None of the parts holds the wallet, and only the server what is the server's."""
    return without_secrets(*(() if command == "server" else _OF_THE_SERVER))


def ended_how(status: int) -> str:
    return f"with exit status {status}" if status >= 0 else f"by signal {-status}"
