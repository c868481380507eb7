"""Shows what a call printed, in the terminal or the notebook of the program that waits for it.

The log is fetched once, when the result is taken, so that it appears where the program is; of a
long one the beginning. A node wrote it, so a terminal does not obey it.
"""

import os
import sys
from contextlib import suppress

from potluck.consumer import notebook
from potluck.consumer.tasks import Tasks
from potluck.local.terminal_filter import TerminalFilter
from potluck.model.error import PotluckError

VARIABLE = "POTLUCK_SHOW_OUTPUT"
_OFF = ("off", "no", "0", "false")


def is_output_shown(wanted: bool | None) -> bool:
    """By default in a terminal and in a notebook."""
    if wanted is not None:
        return wanted
    if os.environ.get(VARIABLE, "").lower() in _OFF:
        return False
    return notebook.in_kernel() or (sys.stdout is not None and sys.stdout.isatty())


def show_output(tasks: Tasks, task_id: str) -> None:
    """Writes stdout and stderr of the newest attempt to ours; an absent server is no failure."""
    with suppress(PotluckError):
        page = tasks.logs(task_id)
        filters = {"stdout": TerminalFilter(), "stderr": TerminalFilter()}
        for piece in page.pieces:
            if piece.stream in filters:
                _write(piece.stream, filters[piece.stream].feed(piece.data))
        for stream, text_filter in filters.items():
            _write(stream, text_filter.finish())
        if not page.complete:
            _write("stderr", f"potluck: `potluck logs {task_id}` shows the rest of its output\n")


def _write(name: str, text: str) -> None:
    """To the stream of this name, without characters that it cannot encode."""
    stream = getattr(sys, name)
    if stream is not None and text:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
