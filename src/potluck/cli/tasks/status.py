"""`potluck status`: shows one task on one screen, once or until it ends."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.results.failure import explain_failure
from potluck.cli.results.fetch import describe_retention, written_bytes
from potluck.cli.tasks.explain import describe_start
from potluck.cli.tasks.items import describe_counts, describe_progress
from potluck.cli.tasks.resolve_task import resolve_task_to_read, short_id
from potluck.cli.tasks.task_text import (
    TONES,
    describe_cost,
    describe_place,
    describe_reason,
    duration_seconds,
    last_attempt,
    waited_seconds,
)
from potluck.cli.terminal.key_values import show_key_values
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.model.error import PotluckError
from potluck.model.task import TaskState
from potluck.model.units import show_age, show_seconds
from potluck.wire.consumer import AttemptView, Explanation, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_WATCH_SECONDS = 2.0
_HOME_AND_CLEAR = b"\x1b[H\x1b[2J"
_MOST_ATTEMPTS = 3


def task_status(
    task: NewestTaskArgument = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every two seconds until the task ends.")
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show the state of a task, and what to do next."""
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = resolve_task_to_read(potluck, task, screen)
        try:
            while not _refresh(potluck, task_id, screen, watch).state.is_final and watch:
                time.sleep(_WATCH_SECONDS)
        except KeyboardInterrupt:
            screen.err.line()


def _refresh(potluck: "Potluck", task_id: str, screen: Screen, is_watched: bool) -> TaskView:
    task = potluck.tasks.get(task_id)
    explanation, failure = _explain(potluck, task), explain_failure(task)
    if screen.json:
        extra = failure.as_json() if explanation is None else {"explanation": explanation}
        screen.emit({**msgspec.to_builtins(task), **extra})
        return task
    if is_watched and screen.out.is_live:
        screen.out.write_bytes(_HOME_AND_CLEAR)
    _show(screen.out, task, explanation, datetime.now(UTC))
    if failure.lines or failure.hint:
        screen.out.line()
    failure.show(screen.out, task)
    _show_next_commands(screen.out, task)
    return task


def _explain(potluck: "Potluck", task: TaskView) -> Explanation | None:
    """Only for a queued task; None if the scheduler is unavailable."""
    if task.state is not TaskState.QUEUED:
        return None
    try:
        return potluck.tasks.explain(task.id)
    except PotluckError:
        return None


def _show(pane: Pane, task: TaskView, explanation: Explanation | None, now: datetime) -> None:
    pane.line(f"{pane.paint(printable(task.name), Tone.STRONG)} {task.id}")
    show_key_values(
        pane,
        {
            "state": _state(pane, task),
            "why": describe_reason(task)
            if explanation is None
            else printable(explanation.sentence),
            "starts": "" if explanation is None else describe_start(explanation, now),
            "items": _items(task, pane),
            "where": _where(task),
            "submitted": f"{show_age(task.created_at, now)} ago",
            "waited": _waited(task, now),
            "ran" if task.state.is_final else "runs": _ran(task, now),
            "attempts": _attempts(task),
            "cost": _cost(task),
            "after": ", ".join(task.after),
            "retry of": task.retry_of or "",
            "kept": describe_retention(task, is_cleared=False),
        },
    )


def _show_next_commands(pane: Pane, task: TaskView) -> None:
    pane.line()
    commands = _next_commands(task)
    size = max(map(len, commands)) + 2
    for command, purpose in commands.items():
        pane.line(f"{command.ljust(size)}{pane.paint(purpose, Tone.FAINT)}")


def _state(pane: Pane, task: TaskView) -> str:
    return pane.paint(printable(task.phase), TONES[task.state])


def _items(task: TaskView, pane: Pane) -> str:
    if task.items is None:
        return ""
    return (
        describe_counts(task.items)
        if task.state.is_final
        else describe_progress(task.items, pane.is_live)
    )


def _where(task: TaskView) -> str:
    attempt = last_attempt(task)
    if attempt is None or (task.state is TaskState.QUEUED and task.items is None):
        return ""
    if task.items is None:
        return describe_place(attempt)
    return ", ".join(sorted({printable(attempt.node_name) for attempt in task.attempts}))


def _waited(task: TaskView, now: datetime) -> str:
    """Until its first start; empty while it waits, first or again."""
    is_waiting = task.state is TaskState.QUEUED
    return "" if is_waiting else show_seconds(waited_seconds(task, now))


def _ran(task: TaskView, now: datetime) -> str:
    seconds = duration_seconds(task, now)
    if seconds is None:
        return ""
    limit = show_seconds(task.limits.run_seconds)
    bound = f", of at most {limit}" if task.items is None and not task.state.is_final else ""
    which = f" (attempt {task.attempt_count})" if task.attempt_count > 1 and not task.items else ""
    return f"{show_seconds(seconds)}{which}{bound}"


def _attempts(task: TaskView) -> str:
    """The number of attempts, and how the last few ended."""
    if "#" in task.id:  # they ended as their other items did, too
        return f"{task.attempt_count} had it among their items" if task.attempt_count > 1 else ""
    if task.attempt_count < 2 or task.items is not None:
        return str(task.attempt_count) if task.attempt_count else ""
    ends = [_end(attempt) for attempt in task.attempts if attempt.finished_at is not None]
    return f"{task.attempt_count}; {'; '.join(ends[-_MOST_ATTEMPTS:])}"


def _end(attempt: AttemptView) -> str:
    reason = "" if attempt.reason is None else f" ({attempt.reason.value.replace('_', ' ')})"
    return f"{attempt.number} {attempt.state} on {printable(attempt.node_name)}{reason}"


def _cost(task: TaskView) -> str:
    if not task.charge_micro:
        return ""
    so_far = "" if task.state.is_final else " so far"
    return f"{describe_cost(task)}{so_far}"


def _retry_command(end: str, is_stream: bool) -> dict[str, str]:
    """Only items of call streams can be retried one by one."""
    whole, mark, _ = end.partition("#")
    if mark and not is_stream:
        return {f"potluck retry {whole}": "runs all failed items again, once the others have ended"}
    return {f"potluck retry {end}": "runs it again"}


def _next_commands(task: TaskView) -> dict[str, str]:
    """Commands that may be useful now, with what they do."""
    end = short_id(task.id)
    if task.state.is_final:
        commands = {f"potluck result {end}": "shows how it ended, and its results"}
        if written_bytes(task):
            commands[f"potluck result {end} -o DIR"] = "downloads its files"
        if task.state is not TaskState.SUCCEEDED:
            commands[f"potluck logs {end}"] = "shows its output"
            commands.update(_retry_command(end, task.is_stream))
        return commands
    is_queued = task.state is TaskState.QUEUED
    commands = {f"potluck explain {end}": "shows why it waits"} if is_queued else {}
    if task.items is None:
        commands[f"potluck logs -f {end}"] = "follows its output"
    commands[f"potluck result --wait {end}"] = "waits until it ends"
    commands[f"potluck cancel {end}"] = "cancels it"
    return commands
