"""Which task somebody means: a whole id, the beginning or end of one, its name, or the newest."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.cli.terminal.units import show_since
from potluck.model.error import Conflict, InvalidInput, NotFound
from potluck.model.ids import is_id
from potluck.wire.consumer import TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

SEARCHED_TASKS = 200
_PAGE = 100
_MOST_TOLD = 5
SHORT_ID = 8


def short_id(task_id: str) -> str:
    """The end of an id: it is random, so it tells tasks apart where the beginning is the time."""
    return task_id[-SHORT_ID:]


def pick_task_id(potluck: "Potluck", text: str | None) -> str:
    """The only one that is meant, for whatever is done with it."""
    if text is None:
        return _newest(potluck)
    if is_id(text, "task"):
        return text
    found = _search(potluck, text)
    if len(found) > 1:
        raise _several(text, found)
    return found[0].id


def pick_to_read(potluck: "Potluck", text: str | None, screen: Screen) -> str:
    """A script that ran often gives its name to many: who reads means the newest of them."""
    if text is None or is_id(text, "task"):
        return pick_task_id(potluck, text)
    found = _search(potluck, text)
    newest = found[0]
    if len(found) > 1 and newest.name != text:
        raise _several(text, found)
    if len(found) > 1 and not screen.json:
        screen.err.line(
            f"potluck: the newest of {len(found)} that are called {printable(text)}:"
            f" {_told(newest)}",
            Tone.FAINT,
        )
    return newest.id


def pick_to_end(potluck: "Potluck", text: str) -> str:
    """Of those with the same name the one that is not over; of several, nobody guesses."""
    if is_id(text, "task"):
        return text
    found = _search(potluck, text)
    live = [task for task in found if not task.state.is_final]
    if len(live) > 1:
        raise _several(text, live)
    if not live and len(found) > 1:
        raise Conflict(
            f"All {len(found)} of your tasks that {printable(text)!r} fits are over.",
            "`potluck ps` shows what still waits or runs.",
        )
    return (live or found)[0].id


def _newest(potluck: "Potluck") -> str:
    for task in _newest_tasks(potluck):
        return task.id
    raise NotFound("You have no tasks yet.", "Start one with `potluck run SCRIPT`.")


def _search(potluck: "Potluck", text: str) -> list[TaskView]:
    """The newest first. By id before by name: a name may look like a part of one."""
    wanted = text.lower().removeprefix("task_")
    known = list(_newest_tasks(potluck)) if text else []
    found = [task for task in known if _fits(task.id, wanted)]
    found = found or [task for task in known if task.name == text]
    if not found:
        raise NotFound(
            f"None of your newest {SEARCHED_TASKS} tasks is called {printable(text)!r}, or has an"
            " id that begins or ends so.",
            "`potluck ps --all` lists all of them; a whole id always works.",
        )
    return found


def _several(text: str, found: Sequence[TaskView]) -> InvalidInput:
    lines = [_told(task) for task in found[:_MOST_TOLD]]
    more = [f"… and {len(found) - len(lines):,} more"] if len(found) > len(lines) else []
    told = f"{printable(text)!r} fits {len(found)} of your tasks:"
    return InvalidInput("\n".join([told, *lines, *more]), "Type one of these ids, or its end.")


def _told(task: TaskView) -> str:
    age = show_since(task.created_at, datetime.now(UTC))
    return f"{task.id} ({task.state}, submitted {age})"


def _fits(task_id: str, wanted: str) -> bool:
    core = task_id.removeprefix("task_")
    return core.startswith(wanted) or core.endswith(wanted)


def _newest_tasks(potluck: "Potluck") -> Iterator[TaskView]:
    cursor = None
    for _ in range(SEARCHED_TASKS // _PAGE):
        page = potluck.tasks.list(limit=_PAGE, cursor=cursor)
        yield from page.tasks
        cursor = page.next_cursor
        if cursor is None:
            return
