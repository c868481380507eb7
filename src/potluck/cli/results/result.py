"""`potluck result`: shows how a task ended, its output and its files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from potluck.cli.notify.notifier import NotifyOption, build_notifier
from potluck.cli.options import (
    JsonOption,
    NewestTaskArgument,
    OverwriteOption,
    RawOption,
    ServerOption,
    connect,
    parse_directory,
)
from potluck.cli.results.collect_items import ItemCollector, numbered_items
from potluck.cli.results.failure import explain_failed_items, explain_failure
from potluck.cli.results.fetch import (
    FetchedFiles,
    OutputDirectory,
    describe_retention,
    describe_size,
    explain_absence,
    fetch_files,
    output_directory,
    written_bytes,
)
from potluck.cli.results.function_value import FunctionValue, read_function_value
from potluck.cli.results.item_result import show_item
from potluck.cli.results.logs import log_pages
from potluck.cli.results.output import write_stdout
from potluck.cli.results.usage import show_usage
from potluck.cli.tasks.items import describe_counts, iter_failed_items, show_failed
from potluck.cli.tasks.resolve_task import resolve_task_to_read, short_id
from potluck.cli.tasks.task_text import (
    describe_cost,
    describe_place,
    describe_reason,
    describe_stage,
    duration_seconds,
    last_attempt,
    waited_seconds,
)
from potluck.cli.terminal.key_values import show_key_values
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.local.media_size import PICTURES, TABLES, media_type
from potluck.model.error import Conflict, InvalidInput
from potluck.model.terms import TaskKind
from potluck.model.units import show_count, show_seconds
from potluck.wire.consumer import OUTPUT_REMARK, TaskView
from potluck.wire.files import TaskFiles

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def result(
    task: NewestTaskArgument = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the task ends.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=parse_directory,
            metavar="DIR",
            help="Download its files into this directory; of an array, also the items' output.",
        ),
    ] = None,
    item: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Show only item N of an array, and what it wrote."),
    ] = None,
    overwrite: OverwriteOption = False,
    notify: NotifyOption = None,
    raw: RawOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show how a task ended (on stderr) and its stdout (on stdout).

    For an array, stdout is the output of all items in order, and stderr lists the failed items;
    for a map of functions, stdout lists the failed items.

    With -o the task's files are downloaded, except those that are already there. Each item of an
    array gets a directory named by its number, with its output as stdout.txt.
    """
    at_the_end = build_notifier(notify if wait else None)
    screen = Screen(json, raw)
    results = output_directory(output, overwrite)
    if item is not None and results is not None:
        raise InvalidInput(
            "-o downloads the files of all items.",
            f"Omit --item {item}: its files are in DIR/{item}.",
        )
    if wait and results is not None:
        results.check(screen)
    with connect(server) as potluck:
        task_id = resolve_task_to_read(potluck, task, screen)
        view = potluck.tasks.wait(task_id) if wait else _finished(potluck, task_id)
        at_the_end.tell(view, screen)
        if item is not None:
            show_item(potluck, view, item, screen)
        else:
            _show_task(potluck, view, results, screen)


def _show_task(
    potluck: "Potluck", view: TaskView, results: OutputDirectory | None, screen: Screen
) -> None:
    collector = _collector(view, results)
    fetched = None if results is None else _fetch(potluck, view, results, collector, screen)
    files = fetched.listing if fetched else _listed(potluck, view, screen)
    value = read_function_value(potluck, view)
    is_cleared = _is_cleared(potluck, view)
    failure = explain_failure(view)
    failed = list(iter_failed_items(potluck, view.id)) if view.items else []
    if not screen.json:
        _show_facts(screen.err, _facts(view, files, is_cleared), value)
        if failed:  # stdout is free if there is no output of items
            show_failed(screen.err if collector else screen.out, failed, len(failed))
            explain_failed_items(screen.err, view.id, failed)
        failure.show(screen.err, view)
    shown = _show_output(potluck, view, None if is_cleared else collector, screen)
    if screen.json:
        returned = {} if value is None else value.for_programs()
        saved = {} if fetched is None else fetched.as_json()
        extra_fields = {
            "cleared": is_cleared,
            **({"failed_items": failed} if view.items else {}),
            **shown,
        }
        extra_fields |= failure.as_json()
        screen.emit({**msgspec.to_builtins(view), **extra_fields, **saved, **returned})


def _collector(task: TaskView, output: OutputDirectory | None) -> ItemCollector | None:
    """None for functions, whose results are values."""
    if task.items is None or task.kind == TaskKind.FUNCTION:
        return None
    return numbered_items(task.items.total, output)


def _fetch(
    potluck: "Potluck",
    task: TaskView,
    output: OutputDirectory,
    collector: ItemCollector | None,
    screen: Screen,
) -> FetchedFiles:
    if collector is not None:
        return collector.fetch(potluck, task, output, screen)
    return fetch_files(potluck, task, output, screen)


def _listed(potluck: "Potluck", task: TaskView, screen: Screen) -> TaskFiles | None:
    return potluck.files.of_task(task.id) if written_bytes(task) and not screen.json else None


def _show_output(
    potluck: "Potluck", task: TaskView, collector: ItemCollector | None, screen: Screen
) -> dict[str, Any]:
    """Writes the output to stdout or into a directory; returns it for --json."""
    if collector is not None:
        return {"item_output": list(collector.collect_output(potluck, task, screen))}
    if task.items is not None:
        return {}
    pieces = [piece for page in log_pages(potluck, task.id) for piece in page.pieces]
    stdout = b"".join(piece.data for piece in pieces if piece.stream == "stdout")
    if not screen.json:
        write_stdout(screen, stdout)
        remarks = "".join(piece.text for piece in pieces if piece.stream == "potluck")
        for line in remarks.splitlines():
            if line.startswith(OUTPUT_REMARK):
                screen.err.prose(f"potluck: {printable(line)}", Tone.FAINT)
    return {"stdout": stdout.decode("utf-8", "replace")}


def _finished(potluck: "Potluck", task_id: str) -> TaskView:
    view = potluck.tasks.get(task_id)
    if view.state.is_final:
        return view
    raise Conflict(
        f"{printable(view.name)} has not ended yet: {describe_stage(view).rstrip('.')}.",
        f"Wait for it with `potluck result {short_id(task_id)} --wait`,"
        f" or watch it with `potluck logs {short_id(task_id)} -f`.",
    )


def _is_cleared(potluck: "Potluck", task: TaskView) -> bool:
    """Whether its retention has ended and its data has been deleted."""
    is_past = task.kept_until is not None and task.kept_until < datetime.now(UTC)
    return is_past and potluck.files.of_task(task.id).cleared


def _show_facts(pane: Pane, facts: dict[str, str], value: FunctionValue | None) -> None:
    if value is not None and not value.traceback:  # the reason names the exception
        facts["returned"] = value.text
    show_key_values(pane, facts)
    pane.line()
    if value is not None and value.traceback:
        for line in value.traceback.splitlines():
            pane.line(printable(line), Tone.FAINT)


def _facts(task: TaskView, files: TaskFiles | None, is_cleared: bool) -> dict[str, str]:
    attempt = last_attempt(task)
    return {
        "task": f"{printable(task.name)} ({task.id})",
        "state": task.state.value,
        "reason": describe_reason(task),
        "exit status": "" if task.exit_code is None else str(task.exit_code),
        "items": "" if task.items is None else describe_counts(task.items),
        "node": describe_place(attempt) if attempt and task.items is None else "",
        "submitted": f"{task.created_at.astimezone():%Y-%m-%d %H:%M:%S}",
        "waited": show_seconds(waited_seconds(task, task.updated_at)),
        "ran": _ran(task),
        "attempts": str(task.attempt_count),
        "used": _used(task),
        "files": "" if files is None else _left(task, files),
        "cost": describe_cost(task),
        "kept": describe_retention(task, is_cleared),
    }


def _ran(task: TaskView) -> str:
    seconds = duration_seconds(task, task.updated_at)
    return "" if seconds is None else show_seconds(seconds)


def _used(task: TaskView) -> str:
    attempt = last_attempt(task)
    if attempt is None or attempt.usage is None or task.items is not None:
        return ""
    return show_usage(attempt.usage)


def _left(task: TaskView, files: TaskFiles) -> str:
    if files.files:
        return f"{_counted(files)}; `potluck files {short_id(task.id)}` lists them"
    return explain_absence(files, task)


def _counted(files: TaskFiles) -> str:
    kinds = [media_type(file.path) for file in files.files]
    counts = [
        (sum(kind in PICTURES for kind in kinds), "picture"),
        (sum(kind in TABLES for kind in kinds), "table"),
    ]
    media = " and ".join(show_count(count, kind) for count, kind in counts if count)
    return f"{describe_size(files)}, including {media}" if media else describe_size(files)
