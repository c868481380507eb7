"""A command in a terminal of its own, as a person has it: it asks, somebody types."""

import contextlib
import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from pathlib import Path
from typing import Self

from tests.cli.command_line import PATIENCE_SECONDS, CommandLine
from tests.processes import potluck


class Terminal:
    """Started on enter, ended on exit, also when the test failed."""

    def __init__(self, user: CommandLine, *arguments: str | Path):
        self._ours, theirs = pty.openpty()
        self._shown = ""
        self._process = subprocess.Popen(
            potluck(*arguments),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**user.variables, "TERM": "dumb"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def answer(self, question: str, text: str) -> None:
        """Types the text once the question is there."""
        self.until(question)
        self.press(f"{text}\n")

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def until(self, words: str) -> str:
        """What it has shown once these words are there."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self._shown:
            assert self._read(deadline), f"no {words!r} in {self._shown!r}"
        shown, self._shown = self._shown, ""
        return shown

    def rest(self) -> str:
        """What it shows from here on, to its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        # A terminal breaks lines where it ends; the words are what matters.
        return " ".join(self._shown.split())

    def status(self) -> int:
        return self._process.wait(PATIENCE_SECONDS)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        received = b""
        if ready:
            with contextlib.suppress(OSError):  # Linux says EIO when the other side is gone
                received = os.read(self._ours, 65_536)
        self._shown += received.decode("utf-8", "replace")
        return bool(received)
