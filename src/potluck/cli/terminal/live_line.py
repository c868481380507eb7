"""One line on stderr that shows the current step and the time elapsed.

In a terminal it has a spinner and can be hidden while other output is written. Elsewhere each
change is a line of its own, so that a log file reads well. With --json it is silent.
"""

import threading
import time
from typing import Self

from potluck.cli.terminal.progress_bar import fit_bar
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.text_width import truncate
from potluck.cli.terminal.units import show_seconds

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1
_ERASE = "\r\x1b[K"


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
