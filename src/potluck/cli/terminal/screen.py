"""Where a command's words go: answers to stdout, everything about them to stderr.

With --json stdout carries JSON and nothing else. Colour is used only in a terminal, and not at all
when NO_COLOR is set or the terminal is dumb.
"""

import os
import shutil
import sys
import textwrap
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from potluck.model.error import OutputLost
from potluck.wire.codec import encode_json


class Tone(StrEnum):
    """What a colour means; the value is the code for it in a terminal that has only a few."""

    GOOD = "32"
    BAD = "1;31"
    BUSY = "36"
    WAITING = "33"
    FAINT = "2"
    STRONG = "1"
    PLAIN = ""


# Of 256 colours, those that can be read on white and on black: yellow on white can not.
COLOURS = {Tone.GOOD: 28, Tone.BAD: 160, Tone.BUSY: 31, Tone.WAITING: 130, Tone.FAINT: 244}


class Pane:
    """One of the two outputs."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self.is_terminal = stream.isatty()
        self.is_live = self.is_terminal and os.environ.get("TERM") != "dumb"
        self.has_colour = self.is_live and not os.environ.get("NO_COLOR")
        self._codes = _codes()

    @property
    def width(self) -> int:
        return shutil.get_terminal_size((80, 24)).columns if self.is_terminal else 10_000

    def paint(self, text: str, tone: Tone) -> str:
        code = self._codes.get(tone, tone)
        return f"\x1b[{code}m{text}\x1b[0m" if self.has_colour and tone and text else text

    def line(self, text: str = "", tone: Tone = Tone.PLAIN) -> None:
        self.write(self.paint(text, tone) + "\n")

    def prose(self, text: str, tone: Tone = Tone.PLAIN, first: str = "", rest: str = "") -> None:
        """Sentences, broken between words where the terminal ends."""
        for line in self.wrapped(text, first, rest):
            self.line(line, tone)

    def wrapped(self, text: str, first: str = "", rest: str = "") -> list[str]:
        """As lines of the terminal's width: `first` before the first, `rest` before the others."""
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def write(self, text: str) -> None:
        self.write_bytes(text.encode(self._stream.encoding, "replace"))

    def write_bytes(self, data: bytes) -> None:
        """The bytes as they are, at once."""
        try:
            self._stream.buffer.write(data)
            self._stream.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            leave_the_pipe()
            raise OutputLost(
                f"What there is to say can not be written: {error.strerror}.",
                "Send it elsewhere, or make room.",
            ) from error


def _codes() -> dict[Tone, str]:
    """Of the tones that look better where there are 256 colours, as nearly everywhere."""
    term = os.environ.get("TERM", "")
    if not os.environ.get("COLORTERM") and "256" not in term and term not in _COLOURFUL:
        return {}
    bold = {Tone.BAD: "1;"}
    return {tone: f"{bold.get(tone, '')}38;5;{number}" for tone, number in COLOURS.items()}


_COLOURFUL = ("alacritty", "foot", "xterm-ghostty", "xterm-kitty", "wezterm")


class Screen:
    """Both outputs, and whether stdout is for programs."""

    def __init__(self, json: bool = False):
        self.json = json
        self.out = Pane(sys.stdout)
        self.err = Pane(sys.stderr)

    def emit(self, value: Any) -> None:
        """One JSON object on a line of its own."""

        self.out.write_bytes(encode_json(value) + b"\n")


def open_streams() -> None:
    """A closed stream swallows what it is given; a terminal without UTF-8 shows what it can."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        getattr(sys, name).reconfigure(errors="replace")


def leave_the_pipe() -> None:
    """Whoever read us has gone; the interpreter must not complain about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Text from strangers, without what a terminal would obey, and without what joins characters
    into one picture or chooses how one looks: terminals disagree about how wide that is.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = (each for each in text if each not in _JOINERS and not _is_variation(each))
    return "".join(each if each.isprintable() else "\ufffd" for each in shown)


_JOINERS = "\u200b\u200c\u200d\u2060\ufeff\u00ad"


def _is_variation(character: str) -> bool:
    """A selector of how the one before it looks, or a skin's colour."""
    return "\ufe00" <= character <= "\ufe0f" or "\U0001f3fb" <= character <= "\U0001f3ff"
