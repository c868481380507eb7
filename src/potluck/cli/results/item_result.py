"""Shows the result of one item of an array: how it ended, what it wrote or returned."""

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from potluck.cli.results.failure import explain_failure
from potluck.cli.results.function_value import FunctionValue, describe_value
from potluck.cli.results.logs import item_pages
from potluck.cli.results.output import write_stdout
from potluck.cli.tasks.items import explain_end
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.key_values import show_key_values
from potluck.cli.terminal.screen import Pane, Screen, printable
from potluck.model.error import InvalidInput
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import TaskKind
from potluck.wire.consumer import FailedItem, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def show_item(potluck: "Potluck", task: TaskView, item: int, screen: Screen) -> None:
    if task.items is None or item >= task.items.total:
        last = "" if task.items is None else f" Its items are 0 to {task.items.total - 1}."
        raise InvalidInput(
            f"{printable(task.name)} has no item {item}.{last}",
            f"`potluck result {short_id(task.id)}` shows all of it.",
        )
    failed = _find_failure(potluck, task, item)
    if task.kind == TaskKind.FUNCTION:
        stdout, value = b"", None if failed else _read_value(potluck, task, item)
    else:
        pages = item_pages(potluck, task, item)
        pieces = [piece for page in pages for piece in page.pieces]
        stdout = b"".join(piece.data for piece in pieces if piece.stream == "stdout")
        value = None
    if screen.json:
        returned = {} if value is None else value.for_programs()
        end = {} if failed is None else msgspec.to_builtins(failed)
        text = stdout.decode("utf-8", "replace")
        state = {"item": item, "state": _state(task, failed), "stdout": text}
        screen.emit({"task_id": task.id, **state, **end, **returned})
        return
    _show_facts(screen.err, task, item, failed, value)
    write_stdout(screen, stdout)


def _find_failure(potluck: "Potluck", task: TaskView, item: int) -> FailedItem | None:
    page = potluck.tasks.failed_items(task.id, item - 1, 1)
    return next(
        (outcome for outcome in page.items if outcome.item == item and outcome.is_final), None
    )


def _read_value(potluck: "Potluck", task: TaskView, item: int) -> FunctionValue | None:
    results = potluck.results.get(task.id).items
    result = next(islice(results, item, None), None)
    return describe_value(result.value) if result is not None and result.ok else None


def _state(task: TaskView, failed: FailedItem | None) -> str:
    if failed is not None:
        return TaskState.FAILED.value
    has_all = task.state is TaskState.SUCCEEDED or task.reason is EndReason.ITEMS_FAILED
    # Otherwise the task ended before all of its items did.
    return TaskState.SUCCEEDED.value if has_all else task.state.value


def _show_facts(
    pane: Pane, task: TaskView, item: int, failed: FailedItem | None, value: FunctionValue | None
) -> None:
    facts = {
        "task": f"{printable(task.name)} ({task.id})",
        "item": f"{item} of {task.items.total:,}" if task.items is not None else "",
        "state": _state(task, failed),
        "reason": "" if failed is None else explain_end(failed),
        "tries": "" if failed is None else str(failed.failures),
        "returned": "" if value is None else value.text,
    }
    show_key_values(pane, facts)
    pane.line()
    if failed is not None:
        failure = explain_failure(failed)
        command = f"potluck logs {short_id(task.id)} --item {item}"
        failure.show_lines(pane, "its", command)
        failure.show_hint(pane)
