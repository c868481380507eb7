"""Progress of uploads and downloads: a bar in a terminal, a few lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.progress_bar import draw_bar, show_tens
from potluck.cli.terminal.screen import Screen, printable
from potluck.cli.terminal.units import show_bytes

# A log shows progress only for large transfers, and for slow ones such as many small files.
_LARGE_BYTES = 4 * 2**20
_SLOW_SECONDS = 3.0

Progress = Callable[[int, int], None]


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
