"""Explains a failed task: what it wrote last, what to do about it, and where the rest is."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Tone, printable
from potluck.local.failure_hints import find_hint
from potluck.model.task import TaskState
from potluck.wire.consumer import FailedItem, TaskView


class TaskFailure(Struct, frozen=True):
    """The last lines that failed code wrote to stderr, and a hint if the cause is known."""

    lines: list[str] = []
    hint: str = ""

    def as_json(self) -> dict[str, Any]:
        lines = {"stderr_tail": self.lines} if self.lines else {}
        return {**lines, **({"hint": self.hint} if self.hint else {})}

    def show(self, pane: Pane, task: TaskView) -> None:
        self.show_lines(pane, "its", f"potluck logs {short_id(task.id)}")
        self.show_hint(pane)

    def show_lines(self, pane: Pane, whose: str, command: str) -> None:
        """More than one line; a single one is part of the reason."""
        if len(self.lines) < 2:
            return
        pane.line(f"The end of {whose} stderr; `{command}` shows all:")
        for line in self.lines:
            pane.line(f"  {printable(line)}", Tone.FAINT)

    def show_hint(self, pane: Pane) -> None:
        if self.hint:
            pane.prose(f"Hint: {printable(self.hint)}")


def explain_failure(ended: TaskView | FailedItem) -> TaskFailure:
    if isinstance(ended, TaskView) and ended.state is not TaskState.FAILED:
        return TaskFailure()
    hint = find_hint(ended.reason, f"{ended.detail}\n{ended.last_lines}")
    return TaskFailure(ended.last_lines.splitlines(), hint)


def explain_failed_items(pane: Pane, task_id: str, failed: Sequence[FailedItem]) -> None:
    """What the first of them wrote last, and the first hint for one of them."""
    if not failed:
        return
    failures = [explain_failure(item) for item in failed]
    command = f"potluck logs {short_id(task_id)} --item {failed[0].item}"
    if has_lines := len(failures[0].lines) > 1:
        pane.line()
    failures[0].show_lines(pane, f"item {failed[0].item}'s", command)
    next((failure for failure in failures if failure.hint), failures[0]).show_hint(pane)
    if not has_lines:
        pane.line(f"`{command}` shows the output of an item.", Tone.FAINT)
