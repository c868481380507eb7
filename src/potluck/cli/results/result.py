"""`potluck result`: how a task ended and what it wrote."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from potluck.cli.notify.notifier import NotifyOption, notifier
from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect, directory
from potluck.cli.results.collect_items import Gathering, by_number
from potluck.cli.results.fetch import absence, brought, fetch_files, keeping, size_of, written_bytes
from potluck.cli.results.function_value import Returned, returned
from potluck.cli.results.logs import log_pages
from potluck.cli.results.usage import used
from potluck.cli.tasks.items import finally_failed, show_failed, told
from potluck.cli.tasks.resolve_task import pick_to_read, short_id
from potluck.cli.tasks.task_text import (
    duration_seconds,
    last_attempt,
    place,
    stage,
    why,
)
from potluck.cli.terminal.screen import (
    Pane,
    Screen,
    Tone,
    printable,
)
from potluck.cli.terminal.units import show_count, show_credits, show_seconds
from potluck.local.media_type import PICTURES, TABLES, media_type
from potluck.model.error import Conflict
from potluck.model.terms import TaskKind
from potluck.wire.consumer import FailedItem, TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def result(
    task: NewestTaskArgument = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the task has ended.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=directory,
            metavar="DIR",
            help="Bring the files that it left into this directory; of an array, also what its"
            " items wrote.",
        ),
    ] = None,
    notify: NotifyOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show how a task ended (on stderr) and its stdout (on stdout).

    Of an array it is what all its items wrote, in their order; those that failed are told on
    stderr. Of functions it is those that failed.

    With -o the files that it left are brought; what is there already is not brought again. Each
    item of an array has a directory there, by its number, with what it wrote as stdout.txt.
    """
    at_the_end = notifier(notify if wait else None)
    screen = Screen(json)
    with connect(server) as potluck:
        task_id = pick_to_read(potluck, task, screen)
        found = potluck.tasks.wait(task_id) if wait else _finished(potluck, task_id)
        at_the_end.tell(found, screen)
        gathering = _gathering(found, output)
        files = _files(potluck, found, output, gathering, screen)
        gave = returned(potluck, found)
        is_cleared = _is_cleared(potluck, found)
        failed = list(finally_failed(potluck, found.id)) if found.items else []
        if not json:
            _show_facts(screen.err, _facts(found, files, is_cleared), gave)
            _show_failed(screen, failed, is_told_apart=gathering is not None)
        shown = _bring_written(potluck, found, None if is_cleared else gathering, screen)
    if json:
        told = {} if gave is None else gave.for_programs()
        there = {} if files is None or output is None else brought(files, output)
        kept = {"cleared": is_cleared, **({"failed_items": failed} if found.items else {}), **shown}
        screen.emit({**msgspec.to_builtins(found), **kept, **there, **told})


def _gathering(task: TaskView, directory: Path | None) -> Gathering | None:
    """For items that write something of their own; what a function gives is its values."""
    if task.items is None or task.kind == TaskKind.FUNCTION:
        return None
    return by_number(task.items.total, directory)


def _files(
    potluck: "Potluck",
    task: TaskView,
    directory: Path | None,
    gathering: Gathering | None,
    screen: Screen,
) -> TaskFiles | None:
    """Brought, if a directory is named; else looked up, if there were any."""
    if directory is not None and gathering is not None:
        return gathering.fetch(potluck, task, directory, screen)
    if directory is not None:
        return fetch_files(potluck, task, directory, screen)
    return potluck.files.of_task(task.id) if written_bytes(task) and not screen.json else None


def _show_failed(screen: Screen, failed: list[FailedItem], *, is_told_apart: bool) -> None:
    """Beside what the items wrote, or in its place."""
    if failed:
        show_failed(screen.err if is_told_apart else screen.out, failed, len(failed))


def _bring_written(
    potluck: "Potluck", task: TaskView, gathering: Gathering | None, screen: Screen
) -> dict[str, Any]:
    """Onto stdout, or into a directory; and for programs, as it is named there."""
    if gathering is not None:
        return {"item_output": list(gathering.bring_written(potluck, task, screen))}
    if task.items is not None:
        return {}
    stdout = _stdout(potluck, task)
    if not screen.json:
        screen.out.write_bytes(stdout)
    return {"stdout": stdout.decode("utf-8", "replace")}


def _finished(potluck: "Potluck", task_id: str) -> TaskView:
    found = potluck.tasks.get(task_id)
    if found.state.is_final:
        return found
    raise Conflict(
        f"{printable(found.name)} has not ended yet: {stage(found).rstrip('.')}.",
        f"Wait for it with `potluck result {short_id(task_id)} --wait`,"
        f" or watch it with `potluck logs {short_id(task_id)} -f`.",
    )


def _is_cleared(potluck: "Potluck", task: TaskView) -> bool:
    """Whether its time is over, and it has been taken away since."""
    is_past = task.kept_until is not None and task.kept_until < datetime.now(UTC)
    return is_past and potluck.files.of_task(task.id).cleared


def _stdout(potluck: "Potluck", task: TaskView) -> bytes:
    pieces = (piece for page in log_pages(potluck, task.id) for piece in page.pieces)
    return b"".join(piece.data for piece in pieces if piece.stream == "stdout")


def _show_facts(pane: Pane, facts: dict[str, str], gave: Returned | None) -> None:
    if gave is not None and not gave.traceback:  # the reason names what was raised
        facts["returned"] = gave.text
    width = max(map(len, facts))
    for name, value in facts.items():
        first, *rest = pane.wrapped(value, rest=" " * (width + 2), first=" " * (width + 2)) or [""]
        pane.line(f"{pane.paint(name.ljust(width), Tone.FAINT)}{first[width:]}")
        for line in rest:
            pane.line(line)
    pane.line()
    if gave is not None and gave.traceback:
        for line in gave.traceback.splitlines():
            pane.line(printable(line), Tone.FAINT)


def _facts(task: TaskView, files: TaskFiles | None, is_cleared: bool) -> dict[str, str]:
    """What is known, in the order in which people ask for it."""
    attempt = last_attempt(task)
    waited = (task.started_at or task.finished_at or task.updated_at) - task.created_at
    facts = {
        "task": f"{printable(task.name)} ({task.id})",
        "state": task.state.value,
        "reason": why(task),
        "exit status": "" if task.exit_code is None else str(task.exit_code),
        "items": "" if task.items is None else told(task.items),
        "node": place(attempt) if attempt and task.items is None else "",
        "submitted": f"{task.created_at.astimezone():%Y-%m-%d %H:%M:%S}",
        "waited": show_seconds(waited.total_seconds()),
        "ran": _ran(task),
        "attempts": str(attempt.number if attempt else 0),
        "used": _used(task),
        "files": "" if files is None else _left(task, files),
        "cost": f"{show_credits(task.charge_micro)} credits",
        "kept": keeping(task, is_cleared),
    }
    return {name: value for name, value in facts.items() if value}


def _ran(task: TaskView) -> str:
    seconds = duration_seconds(task, task.updated_at)
    return "" if seconds is None else show_seconds(seconds)


def _used(task: TaskView) -> str:
    attempt = last_attempt(task)
    if attempt is None or attempt.usage is None or task.items is not None:
        return ""
    return used(attempt.usage)


def _left(task: TaskView, files: TaskFiles) -> str:
    if files.files:
        return f"{_counted(files)}; `potluck files {short_id(task.id)}` lists them"
    return absence(files, task)


def _counted(files: TaskFiles) -> str:
    kinds = [media_type(file.path) for file in files.files]
    several = [
        (sum(kind in PICTURES for kind in kinds), "picture"),
        (sum(kind in TABLES for kind in kinds), "table"),
    ]
    among = " and ".join(show_count(number, one) for number, one in several if number)
    return f"{size_of(files)}, {among} among them" if among else size_of(files)
