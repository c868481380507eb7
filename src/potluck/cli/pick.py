"""Which task somebody means: a whole id, the beginning or end of one, or the newest."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from potluck.cli.screen import printable
from potluck.model.error import InvalidInput, NotFound
from potluck.model.ids import is_id

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
    for task_id in _newest_ids(potluck):
        return task_id
    raise NotFound("You have no tasks yet.", "Start one with `potluck run SCRIPT`.")


def _search(potluck: "Potluck", text: str) -> str:
    wanted = text.lower().removeprefix("task_")
    found = [known for known in _newest_ids(potluck) if text and _fits(known, wanted)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound(
            f"None of your newest {SEARCHED_TASKS} tasks has an id that begins or ends with"
            f" {printable(text)!r}.",
            "`potluck ps --all` lists all of them; a whole id always works.",
        )
    raise InvalidInput(
        f"{printable(text)!r} fits {len(found)} of your tasks: {', '.join(found[:3])}"
        f"{' …' if len(found) > 3 else ''}.",
        "Type a few characters more; the ends of the ids differ most.",
    )


def _fits(task_id: str, wanted: str) -> bool:
    core = task_id.removeprefix("task_")
    return core.startswith(wanted) or core.endswith(wanted)


def _newest_ids(potluck: "Potluck") -> Iterator[str]:
    cursor = None
    for _ in range(SEARCHED_TASKS // _PAGE):
        page = potluck.tasks.list(limit=_PAGE, cursor=cursor)
        yield from (task.id for task in page.tasks)
        cursor = page.next_cursor
        if cursor is None:
            return
