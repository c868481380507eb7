"""`potluck retry`: submits a finished task again."""

from typing import Annotated

import typer

from potluck.cli.notify.notifier import NotifyOption, build_notifier
from potluck.cli.options import JsonOption, NewestTaskArgument, RawOption, ServerOption, connect
from potluck.cli.request.inputs import read_secrets
from potluck.cli.request.options import option_info
from potluck.cli.tasks.resolve_task import resolve_task_id, short_id
from potluck.cli.tasks.submit import show_submitted
from potluck.cli.tasks.watch import watch_submitted
from potluck.cli.terminal.screen import Screen
from potluck.model.units import show_count
from potluck.wire.consumer import TaskView


def retry(
    task: NewestTaskArgument = None,
    all_items: Annotated[
        bool,
        typer.Option(
            "--all", help="Of an array, rerun all items, not only those that did not succeed."
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", "-f", "--wait", help="Watch the task until it ends, as `run` does."
        ),
    ] = False,
    secret: Annotated[list[str] | None, option_info("secret")] = None,
    trust: Annotated[list[str] | None, option_info("trust")] = None,
    secrets_to_strangers: Annotated[bool, option_info("secrets-to-strangers")] = False,
    notify: NotifyOption = None,
    raw: RawOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Submit a finished task again, as a new task.

    Its input files are reused as long as the server keeps them. Secrets are deleted when a task
    ends, so give them again. The new task does not wait for --after or --delay again.

    Of an array only the items that did not succeed are run; they keep their numbers.
    """
    screen = Screen(json, raw)
    secrets = read_secrets(secret or [], screen.err)
    at_the_end = build_notifier(notify if follow else None)
    with connect(server) as potluck:
        submitted = potluck.tasks.retry(
            resolve_task_id(potluck, task),
            all_items=all_items,
            secrets=secrets,
            trust=tuple(trust or ()),
            secrets_to_strangers=secrets_to_strangers,
        )
        _tell_origin(submitted, screen)
        if follow:
            raise typer.Exit(watch_submitted(potluck, submitted, screen, at_the_end))
    show_submitted(submitted, screen)


def _tell_origin(task: TaskView, screen: Screen) -> None:
    counts = task.items
    if screen.json or counts is None or not counts.succeeded or task.retry_of is None:
        return
    screen.err.prose(
        f"Running {show_count(counts.pending, 'item')} of {counts.total:,} again; the results of"
        f" the others are with {short_id(task.retry_of)}."
    )
