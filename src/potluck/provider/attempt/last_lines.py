"""The end of what failed code wrote, which mostly says why it failed."""

from potluck.model.bounded_types import MOST_LAST_CHARACTERS

KEPT_BYTES = 4_096
_MOST_LINES = 10


def last_lines(stderr: bytes | str, exception: str = "") -> str:
    """The last lines of stderr, and after them the exception of a function.

    Of a progress bar the last state counts.
    """
    text = stderr if isinstance(stderr, str) else stderr.decode("utf-8", "replace")
    written = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
    lines = [line for line in (*written, exception) if line]
    return "\n".join(lines[-_MOST_LINES:])[-MOST_LAST_CHARACTERS:]
