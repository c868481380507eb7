"""Explains a failed task: the end of its stderr, what to do about it, and where the rest is."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.local.failure_hints import find_hint
from potluck.model.error import PotluckError
from potluck.model.task import TaskState
from potluck.wire.consumer import FailedItem, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


class TaskFailure(Struct, frozen=True):
    """The last lines that a failed task wrote to stderr, and a hint if the cause is known."""

    lines: list[str] = []
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        lines = {"stderr_tail": self.lines} if self.lines else {}
        return {**lines, **({"hint": self.hint} if self.hint else {})}

    def show(self, pane: Pane, task: TaskView) -> None:
        if self.lines:
            pane.line()
            pane.line(f"The end of its stderr; `potluck logs {short_id(task.id)}` shows all:")
        for line in self.lines:
            pane.line(f"  {printable(line)}", Tone.FAINT)
        self.show_hint(pane)

    def show_hint(self, pane: Pane) -> None:
        if self.hint:
            pane.prose(f"Hint: {printable(self.hint)}")


def read_failure(potluck: "Potluck", task: TaskView) -> TaskFailure:
    """With the end of its log, unless that is one line that the reason names, or is not there."""
    from potluck.consumer.result.log import read_stderr_tail

    if task.state is not TaskState.FAILED:
        return TaskFailure()
    lines: list[str] = []
    if task.items is None and task.attempts:
        with suppress(PotluckError):  # the reason is known without it
            lines = read_stderr_tail(potluck.tasks, task.id)
    hint = find_hint(task.reason, task.detail) or find_hint(task.reason, "\n".join(lines))
    is_known = len(lines) == 1 and lines[0].strip() in task.detail
    return TaskFailure([] if is_known else lines, hint)


def explain_failure(potluck: "Potluck", task: TaskView) -> TaskFailure:
    """Without its output, which has just been shown."""
    return TaskFailure(hint=read_failure(potluck, task).hint if task.items is None else "")


def explain_failed_items(pane: Pane, task_id: str, failed: Sequence[FailedItem]) -> None:
    """The first hint for one of the items, and the command that shows an item's output."""
    if not failed:
        return
    hints = (find_hint(item.reason, item.detail) for item in failed)
    TaskFailure(hint=next(filter(None, hints), "")).show_hint(pane)
    command = f"`potluck logs {short_id(task_id)} --item {failed[0].item}`"
    pane.line(f"{command} shows the output of an item.", Tone.FAINT)
