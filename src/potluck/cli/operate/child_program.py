"""The server or the provider as a child process of `up`.

It has its own session, so Ctrl-C reaches only `up`, which then stops its children in order. On
Linux the kernel stops it when `up` dies, even by kill -9. Its JSON lines on stdout and its exit go
to the inbox; its log goes to a file.
"""

import contextlib
import itertools
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

from potluck.local.child_process import end_with_parent, environment_without_secrets
from potluck.model.error import PotluckError, StartFailed
from potluck.wire.problem import Problem, to_error

TAIL_LINES = 12
_TAIL_BYTES = 16_384
_LAST_OUTPUT_SECONDS = 1.0
_EARLIER_LOGS = 7
# May contain a password or a key; only the server gets them.
_SERVER_ONLY = (
    "POTLUCK_DATABASE_URL",
    "POTLUCK_DATABASE_DIRECT_URL",
    "POTLUCK_REDIS_URL",
    "POTLUCK_CHAIN_RPC_URLS",
    "POTLUCK_ENCRYPTION_KEY",
    "POTLUCK_ENCRYPTION_KEY_COMMAND",
    "POTLUCK_ALERT_URLS",
    "POTLUCK_SENTRY_DSN",
    "POTLUCK_BACKUP_PASSPHRASE",
)


class ProgramLine(Struct, frozen=True):
    """A child wrote a line of JSON."""

    part: str
    values: dict[str, Any]


class ProgramEnded(Struct, frozen=True):
    """A child has exited."""

    part: str
    status: int


class StopSignal(Struct, frozen=True):
    """`up` received a signal."""


class CheckProgress(Struct, frozen=True):
    stage: str


class CheckDone(Struct, frozen=True):
    """The self-check has finished, or failed with an error."""

    outcome: Any


PlatformEvent = ProgramLine | ProgramEnded | StopSignal | CheckProgress | CheckDone
Inbox = SimpleQueue[PlatformEvent]


class ChildProgram:
    def __init__(self, name: str, log: Path, inbox: Inbox):
        self.name = name
        self.log = log
        self._inbox = inbox
        self.has_served = False  # it was healthy at least once
        self.is_draining = False  # its owner asked it to stop when its work is done
        self._process: subprocess.Popen[bytes] | None = None
        self._problem: Problem | None = None

    def start(self, command: str, arguments: Sequence[str], variables: Mapping[str, str]) -> None:
        """Starts `potluck COMMAND` with a new log, and keeps those of earlier starts."""
        self._problem, self.is_draining = None, False
        rotate_log(self.log)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "potluck", command, *arguments, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**_child_environment(command), **variables, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
        threading.Thread(target=self._attend, args=(self._process,), daemon=True).start()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask_to_stop(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills it and all its children."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def failure(self, status: int) -> PotluckError:
        """Why it exited: its own error, or the end of its log."""
        if self._problem is not None:
            return to_error(self._problem)
        return StartFailed(
            f"The {self.name} exited {exit_text(status)}. The end of its log:\n{self.tail()}",
            f"The full log is in {self.log}.",
        )

    def tail(self) -> str:
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError as error:
            lines = [f"(it cannot be read: {error.strerror})"]
        return "\n".join(f"    {line}" for line in lines[-TAIL_LINES:]) or "    (it is empty)"

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _attend(self, process: "subprocess.Popen[bytes]") -> None:
        listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        listener.start()
        status = process.wait()
        # Its last output comes before its exit, but one of its children may hold the pipe open.
        listener.join(_LAST_OUTPUT_SECONDS)
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


def rotate_log(log: Path) -> None:
    """`server.log` becomes `server.log.1`, that `server.log.2`, and the oldest is dropped."""
    paths = [log, *(log.with_name(f"{log.name}.{number + 1}") for number in range(_EARLIER_LOGS))]
    for newer, older in reversed(list(itertools.pairwise(paths))):
        if newer.exists():
            newer.replace(older)


def _child_environment(command: str) -> dict[str, str]:
    """No child gets the wallet's secrets, and only the server gets its own."""
    return environment_without_secrets(*(() if command == "server" else _SERVER_ONLY))


def exit_text(status: int) -> str:
    return f"with status {status}" if status >= 0 else f"on signal {-status}"
