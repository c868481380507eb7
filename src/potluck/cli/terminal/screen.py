"""A command's output: results go to stdout, messages about them to stderr.

With --json stdout carries only JSON. Colour is used only in a terminal, and not if NO_COLOR is set
or the terminal is dumb. Whatever a text contains, a terminal is made to obey nothing but colours,
line breaks and moves within the line.
"""

import os
import re
import shutil
import sys
import textwrap
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO

from potluck.local.terminal_filter import filter_text
from potluck.model.bounded_types import replace_deceiving
from potluck.model.error import OutputLost
from potluck.wire.codec import encode_json


class Tone(StrEnum):
    """The meaning of a colour; the value is its code in a terminal with few colours."""

    GOOD = "32"
    BAD = "1;31"
    BUSY = "36"
    WAITING = "33"
    FAINT = "2"
    STRONG = "1"
    PLAIN = ""


# Of 256 colours, those that are readable on white and on black; yellow on white is not.
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
        """Writes sentences, wrapped at the terminal's width."""
        for line in self.wrapped(text, first, rest):
            self.line(line, tone)

    def wrapped(self, text: str, first: str = "", rest: str = "") -> list[str]:
        """Wraps to the terminal's width; `first` and `rest` indent the first and other lines."""
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def write(self, text: str) -> None:
        self.write_filtered(filter_text(text) if self.is_terminal else text)

    def write_filtered(self, text: str) -> None:
        """Writes a text that has been filtered if this is a terminal."""
        self.write_bytes(text.encode(self._stream.encoding, "replace"))

    def write_bytes(self, data: bytes) -> None:
        """Writes exactly this, and flushes."""
        try:
            self._stream.buffer.write(data)
            self._stream.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            silence_stdout()
            raise OutputLost(
                f"The output cannot be written: {error.strerror}.",
                "Redirect it elsewhere, or free some space.",
            ) from error


def _codes() -> dict[Tone, str]:
    """The codes of tones in a terminal with 256 colours; empty for other terminals."""
    term = os.environ.get("TERM", "")
    if not os.environ.get("COLORTERM") and "256" not in term and term not in _COLOURFUL:
        return {}
    bold = {Tone.BAD: "1;"}
    return {tone: f"{bold.get(tone, '')}38;5;{number}" for tone, number in COLOURS.items()}


_COLOURFUL = ("alacritty", "foot", "xterm-ghostty", "xterm-kitty", "wezterm")


_JSON_CONTROLS = re.compile("[\x7f-\x9f]")


class Screen:
    """Both outputs, whether stdout is for programs, and whether tasks may control the terminal."""

    def __init__(self, json: bool = False, is_raw: bool = False):
        self.json = json
        self.is_raw = is_raw
        self.out = Pane(sys.stdout)
        self.err = Pane(sys.stderr)

    def emit(self, value: Any) -> None:
        """Writes one JSON object on its own line.

        In a terminal the control characters that JSON allows in texts are escaped as well.
        """
        data = encode_json(value) + b"\n"
        if self.out.is_terminal:
            data = _JSON_CONTROLS.sub(
                lambda match: f"\\u{ord(match[0]):04x}", data.decode()
            ).encode()
        self.out.write_bytes(data)


def open_streams() -> None:
    """Discards output to closed streams; replaces characters that the terminal cannot encode."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        getattr(sys, name).reconfigure(errors="replace")


def silence_stdout() -> None:
    """Keeps the interpreter from reporting a closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Removes control characters, joiners and variation selectors from untrusted text.

    Terminals obey the first, and disagree about the width of the others.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = (char for char in text if char not in _JOINERS and not _is_variation(char))
    return replace_deceiving("".join(shown), "\ufffd")


_JOINERS = "\u200b\u200c\u200d\u2060\ufeff\u00ad"


def _is_variation(character: str) -> bool:
    """Whether it is a variation selector or a skin tone."""
    return "\ufe00" <= character <= "\ufe0f" or "\U0001f3fb" <= character <= "\U0001f3ff"
