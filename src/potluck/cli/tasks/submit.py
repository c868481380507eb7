"""`potluck submit`: a task into the queue, and its id."""

import typer

from potluck.cli.account.ensure_signed_in import EntryOptions, entered
from potluck.cli.option_groups import grouped
from potluck.cli.options import DryRunOption, JsonOption, ServerOption
from potluck.cli.request.arguments import ArgumentsArgument, ScriptArgument, words_of
from potluck.cli.request.defaults import defaults_used, project_server
from potluck.cli.request.options import TaskOptions, drafted, sent_along
from potluck.cli.tasks.dry_run import dry_run as shown_dry
from potluck.cli.tasks.task_text import where_shown
from potluck.cli.terminal.screen import Screen
from potluck.wire.consumer import TaskView


@grouped
def submit(
    context: typer.Context,
    task: TaskOptions,
    entry: EntryOptions,
    script: ScriptArgument = None,
    arguments: ArgumentsArgument = None,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Put a task into the queue and show its id; it runs without you.

    It takes what `potluck run` takes. `potluck status TASK` shows what becomes of it,
    `potluck result TASK` what it gave.
    """
    screen = Screen(json)
    draft = drafted(words_of(script, arguments), task, screen, is_meant=not dry_run)
    with entered(screen, server, entry, project_server(context)) as potluck:
        if dry_run:
            raise typer.Exit(shown_dry(potluck, draft, screen, defaults_used(context)))
        submitted = potluck.tasks.submit(sent_along(potluck, draft, screen))
    tell_submitted(submitted, screen)


def tell_submitted(task: TaskView, screen: Screen) -> None:
    """The id alone on stdout, so that a shell can take it."""
    if screen.json:
        screen.emit(task)
    else:
        screen.out.line(task.id)
        screen.err.line(f"It runs without you; {where_shown(task)}.")
