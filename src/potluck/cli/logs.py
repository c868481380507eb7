"""`potluck logs`: what a task wrote."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.attempts import attempts_at
from potluck.cli.notify.notifier import notifier
from potluck.cli.notify.options import NotifyOption
from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.output import TaskOutput
from potluck.cli.pick import pick_task_id, short_id
from potluck.cli.screen import Screen, Tone
from potluck.cli.story import last_attempt
from potluck.model.error import InvalidInput, NotFound
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
        typer.Option(min=0, metavar="N", help="Of the newest attempt at item N of an array."),
    ] = None,
    notify: NotifyOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a task wrote, on the streams that it wrote to."""
    if [follow, attempt is not None, item is not None].count(True) > 1:
        raise InvalidInput(
            "--follow, --attempt and --item each say whose log it is.", "Leave all but one out."
        )
    at_the_end = notifier(notify if follow else None)
    screen = Screen(json)
    output = TaskOutput(screen)
    with connect(server) as potluck:
        task_id = pick_task_id(potluck, task)
        if follow:
            _refuse_array(potluck.tasks.get(task_id))
        if item is not None:
            attempt = _attempt_at(potluck, task_id, item, screen)
        pages = _followed(potluck, task_id) if follow else log_pages(potluck, task_id, attempt)
        for page in pages:
            _show(page, output, screen)
        if not at_the_end.is_silent:
            output.finish_line()
            at_the_end.tell(potluck.tasks.get(task_id), screen)


def _show(page: LogPage, output: TaskOutput, screen: Screen) -> None:
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


def _refuse_array(task: TaskView) -> None:
    if task.items is not None:
        raise InvalidInput(
            "The items of an array run side by side, so there is no one log to follow.",
            f"`potluck logs {short_id(task.id)} --item N` shows what one item wrote,"
            f" `potluck result {short_id(task.id)} --wait` how it ends.",
        )


def _attempt_at(potluck: "Potluck", task_id: str, item: int, screen: Screen) -> int:
    """The number of the newest attempt that had this item, perhaps among others."""
    found = next(attempts_at(potluck, task_id, item), None)
    if found is None or found.items is None:
        if potluck.tasks.get(task_id).items is None:
            raise InvalidInput(
                f"{short_id(task_id)} is no array, so it has no items.", "Leave out --item."
            )
        raise NotFound(
            f"No attempt of {short_id(task_id)} has had an item {item}.",
            f"`potluck attempts {short_id(task_id)}` lists what each of them had.",
        )
    if len(found.items) > 1 and not screen.json:
        last = found.items.end - 1
        screen.err.line(
            f"potluck: attempt {found.number} ran items {found.items.start} to {last}; what each"
            " wrote stands under its number",
            Tone.FAINT,
        )
    return found.number


def log_pages(potluck: "Potluck", task_id: str, attempt: int | None = None) -> Iterator[LogPage]:
    """All that there is now of one attempt's log; the newest attempt's unless numbered."""
    newest = last_attempt(potluck.tasks.get(task_id))
    # Named in every call: another attempt may begin while this one's log is read.
    number = attempt or (newest.number if newest else None)
    offset, is_last = 0, number is None
    while not is_last:
        page = potluck.tasks.logs(task_id, number, offset)
        yield page
        is_last = page.next_offset <= offset
        offset = page.next_offset


def _followed(potluck: "Potluck", task_id: str) -> Iterator[LogPage]:
    """Of a log that has nothing, the end says why."""
    is_empty = True
    for event in potluck.tasks.follow(task_id):
        if isinstance(event, FollowedLog):
            is_empty = False
            yield event.page
    if is_empty:
        yield from log_pages(potluck, task_id)
