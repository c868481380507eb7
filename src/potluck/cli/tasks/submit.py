"""`potluck submit`: submits a task and prints its id."""

from typing import TYPE_CHECKING

import typer

from potluck.cli.account.ensure_signed_in import SignInOptions, signed_in_client
from potluck.cli.options import DryRunOption, JsonOption, ServerOption, expand_option_groups
from potluck.cli.request.defaults import find_project_server, get_used_defaults
from potluck.cli.request.options import TaskOptions, TaskWords, draft_task, prepare_request
from potluck.cli.tasks.dry_run import dry_run as shown_dry
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.tasks.task_text import suggest_next_command
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.model.error import PotluckError
from potluck.model.task import TaskRequest
from potluck.wire.consumer import TaskView
from potluck.wire.estimate import Estimate, Outlook

if TYPE_CHECKING:
    from potluck.consumer import Potluck


@expand_option_groups
def submit(
    context: typer.Context,
    task: TaskOptions,
    entry: SignInOptions,
    words: TaskWords,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Submit a task and print its id; it runs in the background.

    It takes the options of `potluck run`. `potluck status TASK` shows the task's state,
    `potluck result TASK` its results.
    """
    screen = Screen(json)
    draft = draft_task(words, task, screen, is_dry_run=dry_run)
    with signed_in_client(screen, server, entry, find_project_server(context)) as potluck:
        if dry_run:
            raise typer.Exit(shown_dry(potluck, draft, screen, get_used_defaults(context)))
        submit_and_show(potluck, prepare_request(potluck, draft, screen), screen)


def submit_and_show(potluck: "Potluck", request: TaskRequest, screen: Screen) -> None:
    """Reports that the task waits, and why, if no node can take it."""
    task = potluck.tasks.submit(request)
    show_submitted(task, screen, None if screen.json else _blocking_estimate(potluck, request))


def _blocking_estimate(potluck: "Potluck", request: TaskRequest) -> Estimate | None:
    """None if the task can start, and if nothing is known: it is submitted in any case."""
    try:
        estimate = potluck.tasks.estimate(request)
    except PotluckError:
        return None
    return estimate if estimate.outlook is Outlook.NEVER else None


def show_submitted(task: TaskView, screen: Screen, blocking: Estimate | None = None) -> None:
    """Prints only the id to stdout, so that a shell can capture it."""
    if screen.json:
        screen.emit(task)
        return
    screen.out.line(task.id)
    if blocking is None:
        screen.err.line(f"It is queued for the background; {suggest_next_command(task)}.")
        return
    end, pane = short_id(task.id), screen.err
    pane.prose(f"It waits and cannot start now. {printable(blocking.sentence)}", Tone.WAITING)
    for change in blocking.changes:
        pane.prose(printable(change), Tone.GOOD, "  ", "  ")
    pane.line(f"`potluck explain {end}` shows more, `potluck cancel {end}` cancels it.")
