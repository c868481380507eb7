"""Errors for tasks and items that have no value."""

from collections.abc import Sequence

from potluck.consumer.tasks import Tasks
from potluck.local.failure_hints import find_hint, is_of_code, last_line
from potluck.model.error import PotluckError, TaskFailed
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.wire.consumer import FailedItem
from potluck.wire.results import TaskResult

_PAGE_ITEMS = 1_000


def task_error(result: TaskResult) -> TaskFailed:
    if result.state is TaskState.CANCELLED:
        return TaskFailed(f"The task {result.task_id} was cancelled.", "Submit it again.")
    return _failed(
        f"The task {result.task_id} {result.state.value}",
        result,
        f"`potluck logs {result.task_id}` shows what it wrote.",
    )


def item_error(result: TaskResult, item: int, failed: FailedItem | None) -> TaskFailed:
    """The error of an item without an exception: it failed, or its task ended."""
    if failed is None and result.state is TaskState.CANCELLED:
        return TaskFailed(
            f"Item {item} of the task {result.task_id} was cancelled.", "Submit it again."
        )
    return _failed(
        f"Item {item} of the task {result.task_id} failed",
        result if failed is None else failed,
        f"`potluck logs {result.task_id} --item {item}` shows what it wrote.",
    )


def _failed(sentence: str, end: TaskResult | FailedItem, command: str) -> TaskFailed:
    """Tracebacks show notes, and no hints."""
    lines = "".join(map(_printable, end.last_lines))
    why = end.detail or _meaning(end.reason)
    if is_of_code(end.reason) and lines:
        why = f"{why.rstrip('.')}: {last_line(lines)}"
    hint = find_hint(end.reason, f"{end.detail}\n{lines}", is_python=True)
    error = TaskFailed(f"{sentence}: {why.rstrip('.')}.", f"{hint} {command}".strip())
    if lines:
        error.add_note(f"The end of its stderr:\n{lines}")
    error.add_note(error.hint)
    return error


def _printable(letter: str) -> str:
    """A node wrote it, and tracebacks go to terminals."""
    return letter if letter.isprintable() or letter in "\n\t" else "\ufffd"


def fetch_failures(tasks: Tasks, task_id: TaskId, items: Sequence[int]) -> dict[int, FailedItem]:
    """The failures of these sorted items; not of all if the server does not answer."""
    failures: dict[int, FailedItem] = {}
    behind: int | None = items[0] - 1
    limit = min(_PAGE_ITEMS, items[-1] + 1 - items[0])
    try:
        while behind is not None and behind < items[-1]:
            page = tasks.failed_items(task_id, behind, limit)
            failures |= {failure.item: failure for failure in page.items}
            behind = page.next_cursor
    except PotluckError:
        pass  # the items have failed in any case; only the reason is missing
    return failures


def _meaning(reason: EndReason | None) -> str:
    return "it gave no result" if reason is None else reason.facts.meaning
