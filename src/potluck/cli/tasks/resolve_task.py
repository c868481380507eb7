"""Resolves a task: by its id, the beginning or end of the id, its name, or the newest."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.error import Conflict, InvalidInput, NotFound
from potluck.model.ids import TaskId, call_id, is_id, split_call_id
from potluck.model.units import show_since
from potluck.wire.consumer import TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

SEARCHED_TASKS = 200
_PAGE = 100
_MOST_LISTED = 5
SHORT_ID = 8


def short_id(task_id: str) -> str:
    """The end of an id: it is random and distinguishes tasks; the beginning is the time."""
    whole_id, mark, item = task_id.partition("#")
    return f"{whole_id[-SHORT_ID:]}{mark}{item}"


def resolve_task_id(potluck: "Potluck", text: str | None) -> str:
    """Fails if several tasks match."""
    if text is None:
        return _newest(potluck)
    name, item = split_call_id(text)
    if item is not None:
        return call_id(TaskId(resolve_task_id(potluck, name)), item)
    if is_id(text, "task"):
        return text
    matches = _search(potluck, text)
    if len(matches) > 1:
        raise _ambiguous(text, matches)
    return matches[0].id


def resolve_task_to_read(potluck: "Potluck", text: str | None, screen: Screen) -> str:
    """Of several tasks with this name, takes the newest."""
    if text is None or is_id(text, "task") or split_call_id(text)[1] is not None:
        return resolve_task_id(potluck, text)
    matches = _search(potluck, text)
    newest = matches[0]
    if len(matches) > 1 and newest.name != text:
        raise _ambiguous(text, matches)
    if len(matches) > 1 and not screen.json:
        screen.err.line(
            f"potluck: the newest of {len(matches)} tasks named {printable(text)}:"
            f" {_describe(newest)}",
            Tone.FAINT,
        )
    return newest.id


def resolve_task_to_cancel(potluck: "Potluck", text: str) -> TaskView:
    """Of several matches, takes the only one that has not finished."""
    if is_id(text, "task") or split_call_id(text)[1] is not None:
        return potluck.tasks.get(resolve_task_id(potluck, text))
    matches = _search(potluck, text)
    live = [task for task in matches if not task.state.is_final]
    if len(live) > 1:
        raise _ambiguous(text, live)
    if not live and len(matches) > 1:
        count = "Both" if len(matches) == 2 else f"All {len(matches)}"
        raise Conflict(
            f"{count} tasks that match {printable(text)!r} have already finished.",
            "`potluck ps` shows the tasks that still wait or run.",
        )
    return (live or matches)[0]


def _newest(potluck: "Potluck") -> str:
    for task in _newest_tasks(potluck):
        return task.id
    raise NotFound("You have no tasks yet.", "Start one with `potluck run SCRIPT`.")


def _search(potluck: "Potluck", text: str) -> list[TaskView]:
    """Newest first. A whole name takes precedence over a part of an id."""
    id_part = text.lower().removeprefix("task_")
    tasks = list(_newest_tasks(potluck)) if text else []
    matches = [task for task in tasks if task.name == text]
    matches = matches or [task for task in tasks if _matches(task.id, id_part)]
    if not matches:
        raise NotFound(
            f"None of your newest {SEARCHED_TASKS} tasks has the name {printable(text)!r}, or an id"
            " that begins or ends with it.",
            "`potluck ps --all` lists all of them; a full id always works.",
        )
    return matches


def _ambiguous(text: str, matches: Sequence[TaskView]) -> InvalidInput:
    lines = [_describe(task) for task in matches[:_MOST_LISTED]]
    more = [f"… and {len(matches) - len(lines):,} more"] if len(matches) > len(lines) else []
    title = f"{printable(text)!r} matches {len(matches)} of your tasks:"
    return InvalidInput("\n".join([title, *lines, *more]), "Type one of these ids, or its end.")


def _describe(task: TaskView) -> str:
    age = show_since(task.created_at, datetime.now(UTC))
    return f"{task.id} ({task.state}, submitted {age})"


def _matches(task_id: str, part: str) -> bool:
    core = task_id.removeprefix("task_")
    return core.startswith(part) or core.endswith(part)


def _newest_tasks(potluck: "Potluck") -> Iterator[TaskView]:
    cursor = None
    for _ in range(SEARCHED_TASKS // _PAGE):
        page = potluck.tasks.list(limit=_PAGE, cursor=cursor)
        yield from page.tasks
        cursor = page.next_cursor
        if cursor is None:
            return
