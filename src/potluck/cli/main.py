"""The `potluck` program: its commands, and the one place where it ends."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from potluck.cli.admin import grant
from potluck.cli.cancel import cancel
from potluck.cli.command import Command
from potluck.cli.failure import misused, tell
from potluck.cli.logs import logs
from potluck.cli.nodes import nodes
from potluck.cli.provide import provide
from potluck.cli.ps import ps
from potluck.cli.result import result
from potluck.cli.run import run
from potluck.cli.screen import open_streams
from potluck.cli.server import server
from potluck.cli.up import up
from potluck.cli.version import version
from potluck.cli.whoami import whoami

_TASKS = "Tasks"
_POOL = "The pool"

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def potluck(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Everyone brings a GPU: run your work on the devices of a pool, and share your own."""


# Options end at the script's name: what follows belongs to the script.
app.command(
    cls=Command, rich_help_panel=_TASKS, context_settings={"allow_interspersed_args": False}
)(run)
for task_command in (ps, logs, result, cancel):
    app.command(cls=Command, rich_help_panel=_TASKS)(task_command)
for pool_command in (up, server, provide, nodes, whoami, version):
    app.command(cls=Command, rich_help_panel=_POOL)(pool_command)

admin = typer.Typer(help="What only the operator may do.")
admin.command("grant", cls=Command)(grant)
app.add_typer(admin, name="admin", rich_help_panel=_POOL)


def main() -> None:
    open_streams()
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit status."""
    try:
        status = app(list(arguments) or ["--help"], prog_name="potluck", standalone_mode=False)
    except typer.TyperException as error:
        group = getattr(getattr(error, "ctx", None), "command_path", "potluck")
        return tell(misused(error.format_message(), group), "--json" in arguments)
    except typer.Abort:
        return 130
    return status if isinstance(status, int) else 0
