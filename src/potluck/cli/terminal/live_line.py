"""One line on stderr that shows the current step and the time elapsed, with progress bars.

In a terminal it has a spinner and can be hidden while other output is written. Elsewhere each
change is a line of its own, so that a log file reads well. With --json it is silent.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.table import truncate, width
from potluck.model.units import show_bytes, show_seconds

_CELLS = 20
_FEW_CELLS = 5
_FEWEST_CELLS = 4
_BAR = re.compile("([━╌]{4,}) ")
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1
_ERASE = "\r\x1b[K"
# A log shows progress only for large transfers, and for slow ones such as many small files.
_LARGE_BYTES = 4 * 2**20
_SLOW_SECONDS = 3.0
Progress = Callable[[int, int], None]


def draw_bar(percent: int) -> str:
    """For a live line."""
    return f"{_cells(percent, _CELLS)} {percent} %"


def draw_short_bar(percent: int) -> str:
    """For a column: the width is constant."""
    return f"{_cells(percent, _FEW_CELLS)} {percent:3} %"


def fit_bar(text: str, room: int) -> str:
    """Shortens the bar in a text so that its words fit; omits a bar that would be too short."""
    excess = width(text) - room
    if excess <= 0:
        return text
    return _BAR.sub(lambda match: _shorten(match[1], excess), text)


def _shorten(bar: str, excess: int) -> str:
    cells = len(bar) - excess
    percent = bar.count("━") * 100 // len(bar)
    return f"{_cells(percent, cells)} " if cells >= _FEWEST_CELLS else ""


def show_tens(percent: int) -> str:
    """For a log, where every change is a line: changes only ten times."""
    return f"{percent // 10 * 10} %"


def _cells(percent: int, cells: int) -> str:
    filled = percent * cells // 100
    return f"{'━' * filled}{'╌' * (cells - filled)}"


class LiveLine:
    """Draws from its own thread until the `with` block ends."""

    def __init__(self, screen: Screen):
        self._pane = screen.err
        self._is_silent = screen.json
        self._is_live = screen.err.is_live and not screen.json
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._text, self._tone = "", Tone.PLAIN
        self._is_hidden = False
        self._is_drawn = False
        self._thread = threading.Thread(target=self._spin, daemon=True)

    def __enter__(self) -> Self:
        if self._is_live:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.hide()

    def say(self, text: str, tone: Tone = Tone.BUSY) -> None:
        with self._lock:
            if text == self._text:
                return
            self._text, self._tone = text, tone
            if not self._is_live and not self._is_silent:
                self._pane.line(f"potluck: {text}")

    def hide(self) -> None:
        """Erases the line until `unhide`."""
        with self._lock:
            self._is_hidden = True
            if self._is_drawn:
                self._pane.write(_ERASE)
                self._is_drawn = False

    def unhide(self) -> None:
        with self._lock:
            self._is_hidden = False

    def _spin(self) -> None:
        frame = 0
        while not self._ended.wait(_FRAME_SECONDS):
            frame += 1
            with self._lock:
                if self._text and not self._is_hidden:
                    self._draw(_FRAMES[frame % len(_FRAMES)])

    def _draw(self, spinner: str) -> None:
        elapsed = show_seconds(time.monotonic() - self._began)
        room = self._pane.width - len(elapsed) - 6
        text = truncate(fit_bar(self._text, room), room)
        painted = self._pane.paint(f"{spinner} {text}", self._tone)
        self._pane.write(f"{_ERASE}{painted} {self._pane.paint('· ' + elapsed, Tone.FAINT)}")
        self._is_drawn = True


def report_progress(screen: Screen, line: LiveLine, title: str) -> Progress:
    """A callback that shows the progress on the line."""
    is_live, title = screen.err.is_live, printable(title)
    began = time.monotonic()

    def report(done_bytes: int, total_bytes: int) -> None:
        percent = done_bytes * 100 // total_bytes if total_bytes else 100
        total = show_bytes(total_bytes)
        if is_live:
            line.say(f"{title}: {draw_bar(percent)} · {show_bytes(done_bytes)} of {total}")
        elif total_bytes >= _LARGE_BYTES or time.monotonic() - began > _SLOW_SECONDS:
            line.say(f"{title}: {show_tens(percent)} of {total}")

    return report


@contextmanager
def resumable_transfer(screen: Screen, before: str = "", again: str = "") -> Iterator[LiveLine]:
    """On Ctrl-C, names the command that resumes the transfer (`again`)."""
    try:
        with LiveLine(screen) as line:
            yield line
    except KeyboardInterrupt:
        if not screen.json:
            command = again or "the same command"
            screen.err.prose(f"Interrupted{before}; {command} resumes where it stopped.")
        raise
