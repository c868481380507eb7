"""`potluck logs`: shows the output of a task."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from potluck.cli.notify.notifier import NotifyOption, build_notifier
from potluck.cli.options import JsonOption, NewestTaskArgument, RawOption, ServerOption, connect
from potluck.cli.results.output import TaskOutput
from potluck.cli.tasks.attempts import iter_attempts
from potluck.cli.tasks.resolve_task import resolve_task_to_read, short_id
from potluck.cli.tasks.task_text import describe_stage, last_attempt
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.consumer.item_log import select_item
from potluck.consumer.result.log_lines import LineSelection, LineSelector
from potluck.model.error import InvalidInput, NotFound
from potluck.model.task import ItemRange, TaskState
from potluck.model.units import parse_moment
from potluck.wire.consumer import FollowedLog, LogPage, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


TailOption = Annotated[
    int | None, typer.Option("--tail", "-n", min=0, metavar="N", help="The last N lines.")
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Lines since this time, such as 10m (ago) or 2026-01-31T12:00."
    ),
]
GrepOption = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Lines that contain this text.")
]


def logs(
    task: NewestTaskArgument = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue until the task ends.")
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The output of attempt N; default: the newest."),
    ] = None,
    item: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="The output of item N of an array, from its newest attempt."
        ),
    ] = None,
    tail: TailOption = None,
    since: SinceOption = None,
    grep: GrepOption = None,
    notify: NotifyOption = None,
    raw: RawOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show a task's output: its stdout on stdout, its stderr on stderr.

    With --follow, --tail limits what is shown of the output so far. --since compares with the time
    when the server received the output.

    An array has a log for each attempt, and an attempt may run many items. `potluck result` shows
    the output of all items in order.
    """
    if [follow, attempt is not None, item is not None].count(True) > 1:
        raise InvalidInput(
            "--follow, --attempt and --item contradict each other.", "Use only one of them."
        )
    moment = None if since is None else parse_moment(since, "--since", datetime.now(UTC))
    selection = LineSelection(tail, moment, grep)
    at_the_end = build_notifier(notify if follow else None)
    screen = Screen(json, raw)
    output = TaskOutput(screen)
    with connect(server) as potluck:
        view = potluck.tasks.get(resolve_task_to_read(potluck, task, screen))
        if follow:
            _refuse_array(view)
        if not json:
            _show_title(view, attempt if item is None else item, screen.err)
        if follow:
            pages = _followed(potluck, view, selection)
        else:
            pages = _selected(potluck, view, attempt, item, selection)
        try:
            has_shown = [_show(page, output, screen) for page in pages]
        finally:
            output.end()
        if not json and not any(has_shown) and not selection:
            _show_empty(view if not follow else potluck.tasks.get(view.id), item, screen.err)
        if not at_the_end.is_silent:
            output.finish_line()
            at_the_end.tell(potluck.tasks.get(view.id), screen)


def _selected(
    potluck: "Potluck",
    task: TaskView,
    attempt: int | None,
    item: int | None,
    selection: LineSelection,
) -> Iterator[LogPage]:
    pages = (
        log_pages(potluck, task.id, attempt) if item is None else item_pages(potluck, task, item)
    )
    return select_lines(pages, LineSelector(selection)) if selection else pages


def _show_title(task: TaskView, selected: int | None, pane: Pane) -> None:
    """Says that the task waits, or which of an array's logs is shown."""
    end, newest = short_id(task.id), last_attempt(task)
    if task.state is TaskState.QUEUED and task.items is None:
        title = f"potluck: {describe_stage(task).rstrip('.')}; `potluck explain {end}` shows more"
        pane.line(title, Tone.FAINT)
    elif task.items is not None and newest is not None and newest.items and selected is None:
        pane.prose(
            f"potluck: attempt {newest.number} of {task.attempt_count}, {_describe(newest.items)};"
            f" --attempt N shows another, --item N the output of one item, `potluck result {end}`"
            " that of all",
            Tone.FAINT,
        )


def _show_empty(task: TaskView, item: int | None, pane: Pane) -> None:
    """An empty log is a surprise, but no failure."""
    if item is not None:
        pane.line(f"potluck: no output of item {item} is kept", Tone.FAINT)
    elif task.state.is_final:
        pane.line("potluck: it wrote nothing", Tone.FAINT)
    elif task.state is not TaskState.QUEUED or task.items is not None:
        pane.line(f"potluck: nothing yet: {describe_stage(task).rstrip('.')}", Tone.FAINT)


def _show(page: LogPage, output: TaskOutput, screen: Screen) -> bool:
    """Returns whether there was anything to show."""
    output.show(page)
    if page.elsewhere:
        output.finish_line()
        screen.err.line(
            "potluck: the rest of this log is on another instance of the server, to which the node"
            " is connected; name that one with --server",
            Tone.FAINT,
        )
    if page.cleared:
        screen.err.line("potluck: its output is no longer kept", Tone.FAINT)
    return bool(page.pieces) or page.elsewhere or page.cleared


def _refuse_array(task: TaskView) -> None:
    if task.items is not None:
        raise InvalidInput(
            "The items of an array run in parallel, so there is no single log to follow.",
            f"`potluck logs {short_id(task.id)} --item N` shows the output of one item,"
            f" `potluck result {short_id(task.id)} --wait` waits for the end.",
        )


def item_pages(potluck: "Potluck", task: TaskView, item: int) -> Iterator[LogPage]:
    """The output of this item, from the newest attempt that ran it."""
    if task.items is None:
        raise InvalidInput(
            f"{short_id(task.id)} is not an array, so it has no items.", "Omit --item."
        )
    attempt = next(iter_attempts(potluck, task.id, item), None)
    if attempt is None or attempt.items is None:
        raise NotFound(
            f"No attempt of {short_id(task.id)} has run an item {item}.",
            f"`potluck attempts {short_id(task.id)}` lists the items of each attempt.",
        )
    return select_item(log_pages(potluck, task.id, attempt.number), attempt.items, item)


def _describe(items: ItemRange) -> str:
    if len(items) == 1:
        return f"which ran item {items.start}"
    return f"which ran items {items.start} to {items.end - 1}"


def log_pages(potluck: "Potluck", task_id: str, attempt: int | None = None) -> Iterator[LogPage]:
    """The current log of an attempt; by default, of the newest."""
    # Every call names the attempt: another one may start while this log is read.
    number = attempt or _newest_number(potluck.tasks.get(task_id))
    offset, is_last = 0, number is None
    while not is_last:
        page = potluck.tasks.logs(task_id, number, offset)
        yield page
        is_last = page.next_offset <= offset
        offset = page.next_offset


def _newest_number(task: TaskView) -> int | None:
    newest = last_attempt(task)
    return newest.number if newest else None


def _followed(potluck: "Potluck", task: TaskView, selection: LineSelection) -> Iterator[LogPage]:
    """If there is no output, yields the pages of the log, which say why."""
    is_empty = True
    shown_page = LogPage(None, 0, 0, [], complete=False)
    selector = LineSelector(selection)
    if selection.tail is not None:  # of the output so far
        for shown_page in select_lines(log_pages(potluck, task.id), selector):
            yield shown_page
    events = potluck.tasks.follow(task.id)
    pages = (event.page for event in events if isinstance(event, FollowedLog))
    unseen = (_after(page, shown_page) for page in pages)
    for page in select_lines(unseen, selector) if selection else unseen:
        is_empty = False
        yield page
    if is_empty:
        yield from log_pages(potluck, task.id)


def select_lines(pages: Iterable[LogPage], selector: LineSelector) -> Iterator[LogPage]:
    """Yields all pages, whose other fields may matter, with the selected lines."""
    page = LogPage(None, 0, 0, [], complete=False)
    for page in pages:
        yield replace(page, pieces=selector.feed(page.pieces))
    yield replace(page, pieces=selector.end(), elsewhere=False, cleared=False)


def _after(page: LogPage, shown_page: LogPage) -> LogPage:
    """The page without the pieces that were shown before."""
    if page.attempt_id != shown_page.attempt_id:
        return page
    return replace(page, pieces=page.pieces[max(0, shown_page.next_offset - page.offset) :])
