"""A command in a terminal of its own, as a person has it: it asks, somebody types.

What it wrote is read as text, or as the rows that the terminal would show of it.
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pyte

from tests.cli.command_line import PATIENCE_SECONDS, CommandLine
from tests.processes import potluck


class Terminal:
    """Started on enter, ended on exit, also when the test failed."""

    def __init__(
        self,
        user: CommandLine,
        *arguments: str | Path,
        kind: str = "dumb",
        columns: int = 80,
        lines: int = 24,
    ):
        self._ours, self._theirs = pty.openpty()
        self._shown = ""
        self.raw = b""
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self._set_size(columns, lines)
        self._settings = termios.tcgetattr(self._theirs)
        self.process = subprocess.Popen(
            potluck(*arguments),
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**user.variables, "TERM": kind},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    def answer(self, question: str, text: str) -> None:
        """Types the text once the question is there."""
        self.until(question)
        self.press(f"{text}\n")

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        """As a person draws the window larger or smaller."""
        self._screen.resize(lines, columns)
        self._set_size(columns, lines)

    def _set_size(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, size)

    @property
    def rows(self) -> list[str]:
        """What the terminal shows."""
        return [row.rstrip() for row in self._screen.display]

    def colours(self) -> set[str]:
        """Of all that is shown."""
        cells = (cell for row in self._screen.buffer.values() for cell in row.values())
        return {colour for cell in cells for colour in (cell.fg, cell.bg)}

    def until_rows(self, is_there: Callable[[list[str]], bool]) -> list[str]:
        """What the terminal shows once it is as it should be."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_there(self.rows):
            assert self._read(deadline), "\n".join(self.rows)
        return self.rows

    def until_row(self, text: str) -> list[str]:
        return self.until_rows(lambda rows: any(text in row for row in rows))

    @property
    def is_as_it_was(self) -> bool:
        """Whether the terminal itself was left as it was found."""
        modes = {number: self.raw.rfind(b"\x1b[?%dh" % number) for number in (1049, 25)}
        last_resets = {number: self.raw.rfind(b"\x1b[?%dl" % number) for number in (1049, 25)}
        is_drawn = modes[1049] < last_resets[1049] and modes[25] >= last_resets[25]
        return is_drawn and termios.tcgetattr(self._theirs) == self._settings

    def until(self, text: str) -> str:
        """What it has shown once these words are there."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self._shown:
            assert self._read(deadline), f"no {text!r} in {self._shown!r}"
        screen, self._shown = self._shown, ""
        return screen

    def rest(self) -> str:
        """What it shows from here on, to its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        # A terminal breaks lines where it ends; the words are what matters.
        return " ".join(self._shown.split())

    def status(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self, deadline: float) -> bool:
        """Whether there was something; also what a process wrote before it ended."""
        received = b""
        while not received and time.monotonic() < deadline:
            has_ended = self.process.poll() is not None
            ready, _, _ = select.select([self._ours], [], [], 0.0 if has_ended else 0.05)
            if ready:
                received = os.read(self._ours, 65_536)
            elif has_ended:
                break
        self._shown += received.decode("utf-8", "replace")
        self.raw += received
        self._stream.feed(received)
        return bool(received)
