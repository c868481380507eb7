"""Files on their way, before somebody's eyes: a bar in a terminal, a few lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from potluck.cli.terminal.live_line import LiveLine
from potluck.cli.terminal.progress_bar import bar, in_tens
from potluck.cli.terminal.screen import Screen, printable
from potluck.cli.terminal.units import show_bytes

# Below this nobody waits for it, so a log need not tell how far it is.
_WORTH_TELLING_BYTES = 4 * 2**20
# Of many small ones they do.
_LONG_SECONDS = 3.0

Progress = Callable[[int, int], None]


def telling(screen: Screen, line: LiveLine, what: str) -> Progress:
    """Says how much of `what` is done, whenever that is told."""
    is_live, what = screen.err.is_live, printable(what)
    began = time.monotonic()

    def tell(done_bytes: int, total_bytes: int) -> None:
        percent = done_bytes * 100 // total_bytes if total_bytes else 100
        total = show_bytes(total_bytes)
        if is_live:
            line.say(f"{what}: {bar(percent)} · {show_bytes(done_bytes)} of {total}")
        elif total_bytes >= _WORTH_TELLING_BYTES or time.monotonic() - began > _LONG_SECONDS:
            line.say(f"{what}: {in_tens(percent)} of {total}")

    return tell


@contextmanager
def resumable(screen: Screen, before: str = "", again: str = "") -> Iterator[LiveLine]:
    """For transfers that a second try takes up again: whoever interrupts one is told by which
    command, and before what that was.
    """
    try:
        with LiveLine(screen) as line:
            yield line
    except KeyboardInterrupt:
        if not screen.json:
            command = again or "the same command"
            screen.err.prose(f"Interrupted{before}; {command} goes on where this ended.")
        raise
