"""`potluck retry`: a task that has ended, once more."""

from typing import Annotated

import typer

from potluck.cli.notify.notifier import NotifyOption, notifier
from potluck.cli.options import JsonOption, ServerOption, TaskArgument, connect
from potluck.cli.request.options import option_info
from potluck.cli.request.secrets import read_secrets
from potluck.cli.tasks.resolve_task import pick_task_id, short_id
from potluck.cli.tasks.submit import tell_submitted
from potluck.cli.tasks.watch import watch_submitted
from potluck.cli.terminal.screen import Screen
from potluck.cli.terminal.units import show_count
from potluck.wire.consumer import TaskView


def retry(
    task: TaskArgument,
    all_items: Annotated[
        bool,
        typer.Option("--all", help="Of an array, all items, not only those without success."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", "--wait", help="Watch it to its end, as `run` does.")
    ] = False,
    secret: Annotated[list[str] | None, option_info("secret")] = None,
    trust: Annotated[list[str] | None, option_info("trust")] = None,
    secrets_to_strangers: Annotated[bool, option_info("secrets-to-strangers")] = False,
    notify: NotifyOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Try a task again that has ended, as a new task.

    Its files come along as long as they are kept. Secrets were forgotten at its end, and are given
    again. What it came after, and its delay, are not waited for again.

    Of an array the items that have not succeeded are run, under the numbers that they had.
    """
    screen = Screen(json)
    secrets = read_secrets(secret or [], screen.err)
    at_the_end = notifier(notify if follow else None)
    with connect(server) as potluck:
        submitted = potluck.tasks.retry(
            pick_task_id(potluck, task),
            all_items=all_items,
            secrets=secrets,
            trust=tuple(trust or ()),
            secrets_to_strangers=secrets_to_strangers,
        )
        _tell_origin(submitted, screen)
        if follow:
            raise typer.Exit(watch_submitted(potluck, submitted, screen, at_the_end))
    tell_submitted(submitted, screen)


def _tell_origin(task: TaskView, screen: Screen) -> None:
    counts = task.items
    if screen.json or counts is None or not counts.succeeded or task.retry_of is None:
        return
    screen.err.prose(
        f"{show_count(counts.pending, 'item')} of {counts.total:,} again; what the others gave is"
        f" with {short_id(task.retry_of)}."
    )
