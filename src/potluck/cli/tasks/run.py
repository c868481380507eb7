"""`potluck run`: runs a task, shows its output and exits with its status."""

from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.account.ensure_signed_in import SignInOptions, signed_in_client
from potluck.cli.notify.notifier import NotifyOption, build_notifier
from potluck.cli.options import (
    DetachOption,
    DryRunOption,
    JsonOption,
    OverwriteOption,
    RawOption,
    ServerOption,
    expand_option_groups,
    parse_directory,
)
from potluck.cli.request.defaults import find_project_server, get_used_defaults
from potluck.cli.request.options import TaskOptions, TaskWords, draft_task, prepare_request
from potluck.cli.results.fetch import output_directory
from potluck.cli.tasks.dry_run import dry_run as shown_dry
from potluck.cli.tasks.submit import submit_and_show
from potluck.cli.tasks.watch import watch
from potluck.cli.terminal.screen import Screen
from potluck.local.tracing import traced_command


@expand_option_groups
def run(
    context: typer.Context,
    task: TaskOptions,
    entry: SignInOptions,
    words: TaskWords,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=parse_directory,
            metavar="DIR",
            help="Download the files that the task left in $POTLUCK_OUTPUT into DIR.",
            rich_help_panel="Files and secrets",
        ),
    ] = None,
    overwrite: OverwriteOption = False,
    detach: DetachOption = False,
    notify: NotifyOption = None,
    dry_run: DryRunOption = False,
    raw: RawOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Run a script on a device of the pool, as if it ran here.

      potluck run hello.py                      on any device
      potluck run --gpu 1 train.py --epochs 3   on a GPU; --epochs is for train.py
      potluck run --folder . -o out train.py    send its folder, fetch its files
      potluck run --command nvidia-smi -L       a program of the node

    A container image (--image) or a template (--template) can be run as well.

    Options go before SCRIPT; everything after it is passed to the script.

    A script declares its dependencies in a PEP 723 block. The files in $POTLUCK_OUTPUT at the end
    are its results; the files in $POTLUCK_CHECKPOINT are restored if it has to be retried.

    The exit status is the task's own; of an array, 0 if it succeeded and 1 if not. With --dry-run
    it is 0 if the task would start, now or later, and 1 if it never would.
    """
    screen = Screen(json, raw)
    draft = draft_task(words, task, screen, is_dry_run=dry_run)
    results = output_directory(output, overwrite)
    if results is not None and not (dry_run or detach):
        results.check(screen)
    at_the_end = build_notifier(None if detach else notify)
    with (
        traced_command("potluck run"),
        signed_in_client(screen, server, entry, find_project_server(context)) as potluck,
    ):
        if dry_run:
            raise typer.Exit(shown_dry(potluck, draft, screen, get_used_defaults(context)))
        request = prepare_request(potluck, draft, screen)
        if not detach:
            raise typer.Exit(watch(potluck, request, screen, results, at_the_end))
        submit_and_show(potluck, request, screen)
