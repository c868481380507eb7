"""`potluck submit`: submits a task and prints its id."""

import typer

from potluck.cli.account.ensure_signed_in import SignInOptions, signed_in_client
from potluck.cli.options import DryRunOption, JsonOption, ServerOption, expand_option_groups
from potluck.cli.request.defaults import find_project_server, get_used_defaults
from potluck.cli.request.options import TaskOptions, TaskWords, draft_task, prepare_request
from potluck.cli.tasks.dry_run import dry_run as shown_dry
from potluck.cli.tasks.task_text import suggest_next_command
from potluck.cli.terminal.screen import Screen
from potluck.wire.consumer import TaskView


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
        submitted = potluck.tasks.submit(prepare_request(potluck, draft, screen))
    show_submitted(submitted, screen)


def show_submitted(task: TaskView, screen: Screen) -> None:
    """Prints only the id to stdout, so that a shell can capture it."""
    if screen.json:
        screen.emit(task)
    else:
        screen.out.line(task.id)
        screen.err.line(f"It runs in the background; {suggest_next_command(task)}.")
