"""Why a task gave nothing, in words."""

from potluck.model.error import TaskFailed
from potluck.model.task import EndReason, TaskState
from potluck.wire.results import TaskResult


def ended(result: TaskResult) -> TaskFailed:
    if result.state is TaskState.CANCELLED:
        return TaskFailed(f"The task {result.task_id} was cancelled.")
    why = result.detail or _words(result.reason)
    return TaskFailed(
        f"The task {result.task_id} {result.state.value}: {why}".rstrip(".") + ".",
        f"`potluck logs {result.task_id}` shows what it wrote.",
    )


def item_ended(result: TaskResult, item: int) -> TaskFailed:
    """An item that nobody raised an exception for."""
    if result.state is TaskState.CANCELLED:
        return TaskFailed(f"Item {item} of the task {result.task_id} was cancelled.")
    return TaskFailed(
        f"Item {item} of the task {result.task_id} gave no result.",
        f"`potluck items {result.task_id}` says why.",
    )


def _words(reason: EndReason | None) -> str:
    return "it gave no result" if reason is None else reason.value.replace("_", " ")
