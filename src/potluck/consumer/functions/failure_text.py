"""Why a task or an item of it gave nothing, in words."""

from collections.abc import Sequence

from potluck.consumer.tasks import Tasks
from potluck.model.error import PotluckError, TaskFailed
from potluck.model.ids import TaskId
from potluck.model.task import EndReason, TaskState
from potluck.wire.consumer import FailedItem
from potluck.wire.results import TaskResult

_PAGE_ITEMS = 1_000


def ended(result: TaskResult) -> TaskFailed:
    if result.state is TaskState.CANCELLED:
        return TaskFailed(f"The task {result.task_id} was cancelled.", "Submit it again.")
    why = result.detail or _words(result.reason)
    return TaskFailed(
        f"The task {result.task_id} {result.state.value}: {why}".rstrip(".") + ".",
        f"`potluck logs {result.task_id}` shows what it wrote.",
    )


def item_ended(result: TaskResult, item: int, failed: FailedItem | None) -> TaskFailed:
    """An item that nobody raised an exception for: why it failed, or its whole task ended."""
    if failed is None and result.state is TaskState.CANCELLED:
        return TaskFailed(
            f"Item {item} of the task {result.task_id} was cancelled.", "Submit it again."
        )
    told = result if failed is None else failed
    why = told.detail or _words(told.reason)
    return TaskFailed(
        f"Item {item} of the task {result.task_id} failed: {why}".rstrip(".") + ".",
        f"`potluck result {result.task_id}` lists the items that failed.",
    )


def failures_of(tasks: Tasks, task_id: TaskId, items: Sequence[int]) -> dict[int, FailedItem]:
    """Why these items failed, which are in order; not of all, if the server can not be asked."""
    found: dict[int, FailedItem] = {}
    behind: int | None = items[0] - 1
    limit = min(_PAGE_ITEMS, items[-1] + 1 - items[0])
    try:
        while behind is not None and behind < items[-1]:
            page = tasks.failed_items(task_id, behind, limit)
            found |= {each.item: each for each in page.items}
            behind = page.next_cursor
    except PotluckError:
        pass  # that they failed is known all the same
    return found


def _words(reason: EndReason | None) -> str:
    return "it gave no result" if reason is None else reason.value.replace("_", " ")
