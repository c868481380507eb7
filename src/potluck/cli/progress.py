"""The live line of `run` on stderr: where the task is, why it waits, how long already.

In a terminal it is one line with a spinner that makes room for the task's own output. Elsewhere
each change is a line of its own, so that a log file reads well. With --json it is silent.
"""

import threading
import time

from potluck.cli.screen import Screen, Tone, printable
from potluck.cli.story import TONES, last_attempt, place, why
from potluck.cli.units import show_seconds
from potluck.wire.consumer import TaskView

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.1
_ERASE = "\r\x1b[K"


class Progress:
    """Draws from a thread of its own; `paused` hides the line while others write."""

    def __init__(self, screen: Screen):
        self._pane = screen.err
        self._is_silent = screen.json
        self._is_live = screen.err.is_live and not screen.json
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._text, self._tone = "submitting", Tone.BUSY
        self._is_hidden = False
        self._is_drawn = False
        self._thread = threading.Thread(target=self._spin, daemon=True)

    def __enter__(self) -> "Progress":
        if self._is_live:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.hide()

    def show(self, task: TaskView) -> None:
        """The task changed. Its end is told by the summary, not here."""
        if not task.state.is_final:
            self.say(_words(task), TONES[task.state])

    def say(self, text: str, tone: Tone = Tone.WAITING) -> None:
        with self._lock:
            if text == self._text:
                return
            self._text, self._tone = text, tone
            if not self._is_live and not self._is_silent:
                self._pane.line(f"potluck: {text}")

    def hide(self) -> None:
        """Makes room; the line stays away until `unhide`."""
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
                if not self._is_hidden:
                    self._draw(_FRAMES[frame % len(_FRAMES)])

    def _draw(self, spinner: str) -> None:
        elapsed = show_seconds(time.monotonic() - self._began)
        room = self._pane.width - len(elapsed) - 6
        text = self._text if len(self._text) <= room else self._text[: max(room - 1, 0)] + "…"
        painted = self._pane.paint(f"{spinner} {text}", self._tone)
        self._pane.write(f"{_ERASE}{painted} {self._pane.paint('· ' + elapsed, Tone.FAINT)}")
        self._is_drawn = True


def _words(task: TaskView) -> str:
    """The phase, and where or why."""
    attempt = last_attempt(task)
    phase = printable(task.phase)
    if task.state.value != "queued" and attempt is not None:
        return f"{phase} on {place(attempt)}"
    reason = why(task)
    return f"{phase}: {reason}" if reason else phase
