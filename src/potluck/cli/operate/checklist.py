"""The steps of `potluck up`: one line each, with the time it took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.error import PotluckError
from potluck.model.units import show_seconds

_NAME_WIDTH = 10


class Step:
    """One step: its progress while it runs, then its outcome."""

    def __init__(self, line: LiveLine) -> None:
        self.say = line.say
        self.mark, self.tone = "", Tone.PLAIN  # an interrupted step has nothing to show
        self.lines: list[str] = []

    def done(self, *lines: str) -> None:
        self.mark, self.tone, self.lines = "✓", Tone.GOOD, list(lines)

    def failed(self) -> None:
        self.mark, self.tone, self.lines = "✗", Tone.BAD, ["failed"]

    def warn(self, *lines: str) -> None:
        """The step failed, and the start continues."""
        self.mark, self.tone, self.lines = "!", Tone.WAITING, list(lines)


class Checklist:
    def __init__(self, screen: Screen):
        self._screen = screen

    @contextmanager
    def step(self, name: str, activity: str) -> Iterator[Step]:
        started_at, line = time.monotonic(), LiveLine(self._screen)
        step = Step(line)
        try:
            with line:
                step.say(activity)
                yield step
        except PotluckError:
            step.failed()
            raise
        finally:
            if step.mark:
                self._show(name, step, time.monotonic() - started_at)

    def _show(self, name: str, step: Step, seconds: float) -> None:
        if self._screen.json:
            return
        pane = self._screen.err
        first, *others = [printable(line) for line in step.lines] or [""]
        took = pane.paint(f"({show_seconds(seconds)})", Tone.FAINT)
        pane.line(f"{pane.paint(step.mark, step.tone)} {name.ljust(_NAME_WIDTH)} {first} {took}")
        for line in others:
            pane.line(f"  {' ' * _NAME_WIDTH} {line}")
