"""Which task somebody means: a whole id, the beginning or end of one, its name, or the newest."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from potluck.cli.screen import printable
from potluck.model.error import InvalidInput, NotFound
from potluck.model.ids import is_id
from potluck.wire.consumer import TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck

SEARCHED_TASKS = 200
_PAGE = 100
SHORT_ID = 8


def short_id(task_id: str) -> str:
    """The end of an id: it is random, so it tells tasks apart where the beginning is the time."""
    return task_id[-SHORT_ID:]


def pick_task_id(potluck: "Potluck", text: str | None) -> str:
    if text is None:
        return _newest(potluck)
    if is_id(text, "task"):
        return text
    return _search(potluck, text)


def _newest(potluck: "Potluck") -> str:
    for task in _newest_tasks(potluck):
        return task.id
    raise NotFound("You have no tasks yet.", "Start one with `potluck run SCRIPT`.")


def _search(potluck: "Potluck", text: str) -> str:
    """By id first: a name may look like a part of one."""
    wanted = text.lower().removeprefix("task_")
    known = list(_newest_tasks(potluck)) if text else []
    found = [task.id for task in known if _fits(task.id, wanted)]
    found = found or [task.id for task in known if task.name == text]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            f"None of your newest {SEARCHED_TASKS} tasks is called {printable(text)!r}, or has an"
            " id that begins or ends so.",
            "`potluck ps --all` lists all of them; a whole id always works.",
        )
    raise InvalidInput(
        f"{printable(text)!r} fits {len(found)} of your tasks: {', '.join(found[:3])}"
        f"{' …' if len(found) > 3 else ''}.",
        "Type one of these ids, or its end.",
    )


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
