"""The progress of a map: a bar in a notebook, a line in a terminal, nothing elsewhere.

It is also off with `progress=False` or POTLUCK_PROGRESS=off. A map that ends quickly shows nothing.
"""

import os
import sys
import time
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from potluck.consumer import notebook

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

VARIABLE = "POTLUCK_PROGRESS"
_OFF = ("off", "no", "0", "false")
_UNNOTICED_SECONDS = 0.5
_PAUSE_SECONDS = 0.2


class MapProgress(Struct, frozen=True):
    """The progress of a map; `total` is None for a generator."""

    name: str
    done: int
    failed: int
    sent: int
    total: int | None
    seconds: float
    is_over: bool = False

    @property
    def text(self) -> str:
        of = "" if self.is_over else f" of {self.sent if self.total is None else self.total:,}"
        so_far = " so far" if self.total is None and not self.is_over else ""
        failed = f", {self.failed:,} failed" if self.failed else ""
        rate = f", {self.done / self.seconds:,.3g} a second" if self.seconds > 1 else ""
        return f"{self.name}: {self.done:,}{of} items{so_far}{failed}{rate}"

    @property
    def picture(self) -> notebook.NotebookView:
        total = self.done if self.is_over else self.total
        html = notebook.bar(self.text, self.done, total)
        return notebook.NotebookView(self.text, html, self.is_over)


class Meter(Protocol):
    def show(self, far: MapProgress) -> None: ...

    def end(self, far: MapProgress) -> None: ...


class NoProgress:
    def show(self, far: MapProgress) -> None:
        pass

    def end(self, far: MapProgress) -> None:
        pass


class NotebookMeter:
    """A bar that stays in the notebook at the end."""

    def __init__(self) -> None:
        self._handle: notebook.Handle | None = None

    def show(self, far: MapProgress) -> None:
        if self._handle is None:
            self._handle = notebook.display(far.picture)
        else:
            self._handle.update(far.picture)

    end = show


class TerminalMeter:
    """A line on stderr that is removed at the end."""

    def __init__(self) -> None:
        self._shown: tuple[Progress, TaskID] | None = None

    def show(self, far: MapProgress) -> None:
        if self._shown is None:
            self._shown = self._begin(far)
        progress, task = self._shown
        progress.update(task, completed=far.done, total=far.total, description=far.text)

    def end(self, far: MapProgress) -> None:  # noqa: ARG002 - the line is removed
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None

    def _begin(self, far: MapProgress) -> "tuple[Progress, TaskID]":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), BarColumn(20), TimeElapsedColumn())
        words = TextColumn("{task.description}", markup=False)
        progress = Progress(*columns, words, console=Console(stderr=True), transient=True)
        progress.start()
        return progress, progress.add_task(far.text, total=far.total)


def choose_meter(wanted: bool | None) -> Meter:
    """The meter for this environment."""
    if wanted is False or os.environ.get(VARIABLE, "").lower() in _OFF:
        return NoProgress()
    if notebook.in_kernel():
        return NotebookMeter()
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if is_terminal and os.environ.get("TERM") != "dumb":
        return TerminalMeter()
    return NoProgress()


class ProgressWatch:
    """Updates the meter now and then, after a first moment."""

    def __init__(self, wanted: bool | None):
        self._meter = choose_meter(wanted)
        self._began_at = time.monotonic()
        self._next_at = self._began_at + _UNNOTICED_SECONDS
        self._has_shown = False
        self.is_silent = isinstance(self._meter, NoProgress)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began_at

    @property
    def next_at(self) -> float | None:
        """The time of the next update; None if it is silent."""
        return None if self.is_silent else self._next_at

    @property
    def is_due(self) -> bool:
        return not self.is_silent and time.monotonic() >= self._next_at

    def tell(self, far: MapProgress) -> None:
        self._has_shown = True
        self._meter.show(far)
        self._next_at = time.monotonic() + _PAUSE_SECONDS

    def end(self, far: MapProgress) -> None:
        if self._has_shown:
            self._meter.end(far)
        self._has_shown = False
