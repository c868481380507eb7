"""`potluck run`: a task, from here to a device and back, with its output and exit status."""

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.account.ensure_signed_in import EntryOptions, entered
from potluck.cli.notify.notifier import NotifyOption, notifier
from potluck.cli.option_groups import grouped
from potluck.cli.options import DetachOption, DryRunOption, JsonOption, ServerOption, directory
from potluck.cli.request.defaults import defaults_used, project_server
from potluck.cli.request.options import TaskOptions, TaskWords, drafted, sent_along
from potluck.cli.results.fetch import check_output, tell_occupied
from potluck.cli.tasks.dry_run import dry_run as shown_dry
from potluck.cli.tasks.submit import tell_submitted
from potluck.cli.tasks.watch import watch
from potluck.cli.terminal.screen import Screen


@grouped
def run(
    context: typer.Context,
    task: TaskOptions,
    entry: EntryOptions,
    words: TaskWords,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=directory,
            metavar="DIR",
            help="Bring here what the task left in $POTLUCK_OUTPUT.",
            rich_help_panel="Files and secrets",
        ),
    ] = None,
    detach: DetachOption = False,
    notify: NotifyOption = None,
    dry_run: DryRunOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Run a script on a device of the pool, as if it ran here.

    Or a command (--command), an image (--image), or a ready task (--template).

    Options go before SCRIPT; whatever follows it goes to the script.

    A script's dependencies are those of its PEP 723 block. What is in $POTLUCK_OUTPUT at the end
    are its files; what is in $POTLUCK_CHECKPOINT is there again if it must be tried once more.

    The exit status is the task's own; of an array, 0 if it succeeded and 1 if not. With --dry-run
    it is 0 if the task would start, now or later, and 1 if it never would.
    """
    screen = Screen(json)
    draft = drafted(words, task, screen, is_meant=not dry_run)
    check_output(output)
    tell_occupied(output, screen)
    at_the_end = notifier(None if detach else notify)
    with entered(screen, server, entry, project_server(context)) as potluck:
        if dry_run:
            raise typer.Exit(shown_dry(potluck, draft, screen, defaults_used(context)))
        request = sent_along(potluck, draft, screen)
        if not detach:
            raise typer.Exit(watch(potluck, request, screen, output, at_the_end))
        submitted = potluck.tasks.submit(request)
    tell_submitted(submitted, screen)
