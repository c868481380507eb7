"""`potluck status`: one task on one screen, once or until it has ended."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.results.fetch import keeping, written_bytes
from potluck.cli.tasks.explain import when
from potluck.cli.tasks.items import progress, told
from potluck.cli.tasks.resolve_task import pick_to_read, short_id
from potluck.cli.tasks.task_text import (
    TONES,
    duration_seconds,
    last_attempt,
    place,
    why,
)
from potluck.cli.terminal.key_values import show_facts
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.cli.terminal.units import show_age, show_credits, show_seconds
from potluck.model.error import PotluckError
from potluck.model.task import TaskState
from potluck.wire.consumer import AttemptView, Explanation, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_WATCH_SECONDS = 2.0
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"
_MOST_ATTEMPTS = 3


def task_status(
    task: NewestTaskArgument = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Look again every two seconds, until its end.")
    ] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show how one task stands, and what to do next."""
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = pick_to_read(potluck, task, screen)
        try:
            while not _shown(potluck, task_id, screen, watch).state.is_final and watch:
                time.sleep(_WATCH_SECONDS)
        except KeyboardInterrupt:
            screen.err.line()


def _shown(potluck: "Potluck", task_id: str, screen: Screen, is_again: bool) -> TaskView:
    task = potluck.tasks.get(task_id)
    said = _explained(potluck, task)
    if screen.json:
        explained = {} if said is None else {"explanation": said}
        screen.emit({**msgspec.to_builtins(task), **explained})
        return task
    if is_again and screen.out.is_live:
        screen.out.write(_HOME_AND_CLEAR)
    _show(screen.out, task, said, datetime.now(UTC))
    return task


def _explained(potluck: "Potluck", task: TaskView) -> Explanation | None:
    """Only of what waits; a scheduler that is away is no reason to fail."""
    if task.state is not TaskState.QUEUED:
        return None
    try:
        return potluck.tasks.explain(task.id)
    except PotluckError:
        return None


def _show(pane: Pane, task: TaskView, said: Explanation | None, now: datetime) -> None:
    pane.line(f"{pane.paint(printable(task.name), Tone.STRONG)} {task.id}")
    show_facts(
        pane,
        {
            "state": _state(pane, task),
            "why": why(task) if said is None else printable(said.sentence),
            "starts": "" if said is None else when(said, now),
            "items": _items(task, pane),
            "where": _where(task),
            "submitted": f"{show_age(task.created_at, now)} ago",
            "ran" if task.state.is_final else "runs": _ran(task, now),
            "attempts": _attempts(task),
            "cost": _cost(task),
            "after": ", ".join(task.after),
            "retry of": task.retry_of or "",
            "kept": keeping(task, is_cleared=False),
        },
    )
    pane.line()
    following = _next(task)
    size = max(map(len, following)) + 2
    for command, does in following.items():
        pane.line(f"{command.ljust(size)}{pane.paint(does, Tone.FAINT)}")


def _state(pane: Pane, task: TaskView) -> str:
    """As it is painted, no line is broken in it."""
    return pane.paint(printable(task.phase), TONES[task.state])


def _items(task: TaskView, pane: Pane) -> str:
    if task.items is None:
        return ""
    return told(task.items) if task.state.is_final else progress(task.items, pane.is_live)


def _where(task: TaskView) -> str:
    attempt = last_attempt(task)
    if attempt is None or (task.state is TaskState.QUEUED and task.items is None):
        return ""
    if task.items is None:
        return place(attempt)
    names = sorted({printable(each.node_name) for each in task.attempts})
    return ", ".join(names)


def _ran(task: TaskView, now: datetime) -> str:
    seconds = duration_seconds(task, now)
    if seconds is None:
        return ""
    limit = show_seconds(task.limits.run_seconds)
    of = f", of at most {limit}" if task.items is None and not task.state.is_final else ""
    return f"{show_seconds(seconds)}{of}"


def _attempts(task: TaskView) -> str:
    """Of several, how the last few ended."""
    if task.attempt_count < 2 or task.items is not None:
        return str(task.attempt_count) if task.attempt_count else ""
    ended = [_ended(each) for each in task.attempts if each.finished_at is not None]
    return f"{task.attempt_count}; {'; '.join(ended[-_MOST_ATTEMPTS:])}"


def _ended(attempt: AttemptView) -> str:
    reason = "" if attempt.reason is None else f" ({attempt.reason.value.replace('_', ' ')})"
    return f"{attempt.number} {attempt.state} on {printable(attempt.node_name)}{reason}"


def _cost(task: TaskView) -> str:
    if not task.charge_micro:
        return ""
    so_far = "" if task.state.is_final else " so far"
    return f"{show_credits(task.charge_micro)} credits{so_far}"


def _next(task: TaskView) -> dict[str, str]:
    """What somebody may want to type, and what it does."""
    end = short_id(task.id)
    if task.state.is_final:
        found = {f"potluck result {end}": "how it ended, and what it gave"}
        if written_bytes(task):
            found[f"potluck result {end} -o DIR"] = "brings its files"
        if task.state is not TaskState.SUCCEEDED:
            found[f"potluck logs {end}"] = "what it wrote"
            found[f"potluck retry {end}"] = "tries it again"
        return found
    found = {} if task.state is not TaskState.QUEUED else {f"potluck explain {end}": "why it waits"}
    if task.items is None:
        found[f"potluck logs -f {end}"] = "what it writes, as it comes"
    found[f"potluck result --wait {end}"] = "waits for its end"
    found[f"potluck cancel {end}"] = "calls it off"
    return found
