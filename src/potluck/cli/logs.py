"""`potluck logs`: what a task wrote."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, NewestTaskArgument, ServerOption, connect
from potluck.cli.output import TaskOutput
from potluck.cli.pick import pick_task_id
from potluck.cli.screen import Screen
from potluck.wire.consumer import FollowedLog, LogPage

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def logs(
    task: NewestTaskArgument = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the task has ended.")
    ] = False,
    attempt: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Of this attempt, not the newest.", show_default=False),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Show what a task wrote: its stdout on stdout, its stderr on stderr."""
    output = TaskOutput(Screen(json))
    with connect(server) as potluck:
        task_id = pick_task_id(potluck, task)
        pages = _followed(potluck, task_id) if follow else log_pages(potluck, task_id, attempt)
        for page in pages:
            output.show(page)


def log_pages(potluck: "Potluck", task_id: str, attempt: str | None = None) -> Iterator[LogPage]:
    """All that there is now of one attempt's log."""
    offset = 0
    while True:
        page = potluck.logs(task_id, attempt, offset)
        yield page
        if page.next_offset <= offset:
            return
        # Stay with the attempt that the first page came from, even if another begins meanwhile.
        attempt, offset = page.attempt_id, page.next_offset


def _followed(potluck: "Potluck", task_id: str) -> Iterator[LogPage]:
    for event in potluck.follow(task_id):
        if isinstance(event, FollowedLog):
            yield event.page
