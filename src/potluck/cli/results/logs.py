"""`potluck logs`: what a task wrote."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.notify.notifier import NotifyOption, notifier
from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.results.item_log import only_item
from potluck.cli.results.output import TaskOutput
from potluck.cli.tasks.attempts import attempts_at
from potluck.cli.tasks.resolve_task import pick_to_read, short_id
from potluck.cli.tasks.task_text import last_attempt, stage
from potluck.cli.terminal.screen import Pane, Screen, Tone
from potluck.model.error import InvalidInput, NotFound
from potluck.model.task import ItemRange, TaskState
from potluck.wire.consumer import FollowedLog, LogPage, TaskView

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def logs(
    task: NewestTaskArgument = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of the N-th attempt, not the newest."),
    ] = None,
    item: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="What item N of an array wrote, when last tried."),
    ] = None,
    notify: NotifyOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a task wrote, on the streams that it wrote to.

    An array has a log for each attempt, and an attempt may run many items. `potluck result` shows
    what all of them wrote, in their order.
    """
    if [follow, attempt is not None, item is not None].count(True) > 1:
        raise InvalidInput(
            "--follow, --attempt and --item each say whose log it is.", "Leave all but one out."
        )
    at_the_end = notifier(notify if follow else None)
    screen = Screen(json)
    output = TaskOutput(screen)
    with connect(server) as potluck:
        found = potluck.tasks.get(pick_to_read(potluck, task, screen))
        if follow:
            _refuse_array(found)
        if not json:
            _tell_before(found, attempt if item is None else item, screen.err)
        if follow:
            pages = _followed(potluck, found)
        elif item is not None:
            pages = _of_item(potluck, found, item)
        else:
            pages = log_pages(potluck, found.id, attempt)
        has_told = [_show(page, output, screen) for page in pages]
        if not json and not any(has_told):
            _tell_nothing(found if not follow else potluck.tasks.get(found.id), item, screen.err)
        if not at_the_end.is_silent:
            output.finish_line()
            at_the_end.tell(potluck.tasks.get(found.id), screen)


def _tell_before(task: TaskView, chosen: int | None, pane: Pane) -> None:
    """That it waits, or whose log this is of the many that an array has."""
    end, newest = short_id(task.id), last_attempt(task)
    if task.state is TaskState.QUEUED and task.items is None:
        said = f"potluck: {stage(task).rstrip('.')}; `potluck explain {end}` says more"
        pane.line(said, Tone.FAINT)
    elif newest is not None and newest.items is not None and chosen is None:
        pane.prose(
            f"potluck: attempt {newest.number} of {task.attempt_count}, {_had(newest.items)};"
            f" --attempt N shows another, --item N what one item wrote, `potluck result {end}`"
            " what all of them did",
            Tone.FAINT,
        )


def _tell_nothing(task: TaskView, item: int | None, pane: Pane) -> None:
    """An empty log is no failure, and yet a surprise."""
    if item is not None:
        pane.line(f"potluck: item {item} wrote nothing that is kept", Tone.FAINT)
    elif task.state.is_final:
        pane.line("potluck: it wrote nothing", Tone.FAINT)
    elif task.state is not TaskState.QUEUED or task.items is not None:
        pane.line(f"potluck: nothing yet: {stage(task).rstrip('.')}", Tone.FAINT)


def _show(page: LogPage, output: TaskOutput, screen: Screen) -> bool:
    """Whether there was anything to show."""
    output.show(page)
    if page.elsewhere:
        output.finish_line()
        screen.err.line(
            "potluck: the rest of this log is kept by another instance of the server,"
            " the one that the node speaks to; ask that one with --server",
            Tone.FAINT,
        )
    if page.cleared:
        screen.err.line("potluck: what it wrote is no longer kept", Tone.FAINT)
    return bool(page.pieces) or page.elsewhere or page.cleared


def _refuse_array(task: TaskView) -> None:
    if task.items is not None:
        raise InvalidInput(
            "The items of an array run side by side, so there is no one log to follow.",
            f"`potluck logs {short_id(task.id)} --item N` shows what one item wrote,"
            f" `potluck result {short_id(task.id)} --wait` how it ends.",
        )


def _of_item(potluck: "Potluck", task: TaskView, item: int) -> Iterator[LogPage]:
    """Of the newest attempt that had this item, perhaps among others, what this one wrote."""
    if task.items is None:
        raise InvalidInput(
            f"{short_id(task.id)} is no array, so it has no items.", "Leave out --item."
        )
    found = next(attempts_at(potluck, task.id, item), None)
    if found is None or found.items is None:
        raise NotFound(
            f"No attempt of {short_id(task.id)} has had an item {item}.",
            f"`potluck attempts {short_id(task.id)}` lists what each of them had.",
        )
    return only_item(log_pages(potluck, task.id, found.number), found.items, item)


def _had(items: ItemRange) -> str:
    if len(items) == 1:
        return f"which had item {items.start}"
    return f"which had items {items.start} to {items.end - 1}"


def log_pages(potluck: "Potluck", task_id: str, attempt: int | None = None) -> Iterator[LogPage]:
    """All that there is now of one attempt's log; the newest attempt's unless numbered."""
    # Named in every call: another attempt may begin while this one's log is read.
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


def _followed(potluck: "Potluck", task: TaskView) -> Iterator[LogPage]:
    """Of a log that has nothing, the end says why."""
    is_empty = True
    for event in potluck.tasks.follow(task.id):
        if isinstance(event, FollowedLog):
            is_empty = False
            yield event.page
    if is_empty:
        yield from log_pages(potluck, task.id)
