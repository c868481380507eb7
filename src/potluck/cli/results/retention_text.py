"""What is there of the files that a task has left, in words.

Nodes tell how much was written; the server knows how much of it was taken, and is still kept.
"""

from datetime import UTC, datetime

from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.units import show_bytes, show_count, show_moment
from potluck.wire.consumer import TaskView
from potluck.wire.files import TaskFiles


def written_bytes(task: TaskView, attempt: int | None = None) -> int:
    """How much its attempts, as far as they are known, or this one, wrote as files."""
    return sum(
        each.usage.output_bytes
        for each in task.attempts
        if each.usage is not None and attempt in (None, each.number)
    )


def size_of(found: TaskFiles) -> str:
    """How many and how large."""
    total = sum(file.blob.size_bytes for file in found.files)
    return f"{show_count(len(found.files), 'file')}, {show_bytes(total)}"


def until(found: TaskFiles) -> str:
    if found.kept_until is None:
        return ""
    return f", kept until {show_moment(found.kept_until, datetime.now(UTC))}"


def keeping(task: TaskView, is_cleared: bool) -> str:
    """How long the server keeps what it wrote, returned and left; empty while it is not over."""
    if task.kept_until is None:
        return ""
    moment = show_moment(task.kept_until, datetime.now(UTC))
    if not is_cleared:
        return f"until {moment}"
    return f"no longer since {moment}: what it wrote, returned and left is gone"


def absence(found: TaskFiles, task: TaskView, attempt: int | None = None) -> str:
    """Why there are none; empty when there never were any."""
    if found.cleared and found.kept_until is not None:
        return f"no longer kept since {show_moment(found.kept_until, datetime.now(UTC))}"
    if found.cleared:
        return "no longer kept"
    if written := written_bytes(task, attempt):
        again = f"`potluck logs {short_id(task.id)}`"
        return f"of {show_bytes(written)} that it wrote none was taken; {again} says why"
    return ""


def none_there(found: TaskFiles, task: TaskView, attempt: int | None = None) -> str:
    if why := absence(found, task, attempt):
        return f"No files: {why}."
    return "It left no files: what is in $POTLUCK_OUTPUT at the end comes back."
