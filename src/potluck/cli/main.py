"""The `potluck` program: builds the tree of commands, and maps errors to exit statuses."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_command_from_info
from typer.models import CommandInfo

from potluck.cli.command import Command
from potluck.cli.command_groups import EARLIER_NAMES, GROUPS, CommandGroup
from potluck.cli.commands import ALIASES, COMMANDS, SENDING, Row
from potluck.cli.completion import use_named_shell
from potluck.cli.terminal.error_output import report_error, usage_error
from potluck.cli.terminal.help_text import HelpGroup, ListingGroup, PlainGroup
from potluck.cli.terminal.screen import open_streams


class DeferredCommand(Command):
    """A command that is listed by its summary and imported when it is used."""

    def __init__(self, row: Row, panel: str | None = None, hidden: bool = False):
        name, self._function, summary = row
        super().__init__(name=name, help=summary, rich_help_panel=panel, hidden=hidden)

    def load(self) -> Any:
        """The command itself, with its options."""
        module, _, function = self._function.partition(":")
        kind: type[Command] = Command
        settings: dict[str, Any] = {}
        if self.name in SENDING:
            from potluck.cli.request.defaults import SendingCommand

            # Options end at the script's name; everything after it belongs to the script.
            kind, settings = SendingCommand, {"allow_interspersed_args": False}
        action = getattr(import_module(f"potluck.cli.{module}"), function)
        info = CommandInfo(self.name, cls=kind, callback=action, context_settings=settings)
        return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        return self.load().make_context(info_name, args, parent, **extra)


def build_program() -> TyperGroup:
    app = typer.Typer(
        cls=PlainGroup,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(potluck)
    program = get_command(app)
    assert isinstance(program, TyperGroup)
    for panel, rows in COMMANDS.items():
        for row in rows:
            program.add_command(DeferredCommand(row, panel))
    by_name = {row[0]: row for rows in COMMANDS.values() for row in rows}
    for alias, name in ALIASES.items():
        program.add_command(DeferredCommand((alias, *by_name[name][1:]), hidden=True))
    for group in GROUPS:
        kind = HelpGroup if group.default is None else ListingGroup
        parts = [DeferredCommand(row) for row in group.commands]
        made = kind(
            name=group.name, help=group.summary, commands=parts, rich_help_panel=group.panel
        )
        if isinstance(made, ListingGroup) and group.default is not None:
            made.default = group.default
        for row in EARLIER_NAMES.get(group.name, ()):
            made.add_command(DeferredCommand(row, hidden=True))
        _parent_of(group, program).add_command(made)
    return program


def _parent_of(group: CommandGroup, program: TyperGroup) -> TyperGroup:
    if group.parent is None:
        return program
    parent = program.commands[group.parent]
    assert isinstance(parent, TyperGroup)
    return parent


def _show_version(is_set: bool) -> None:
    if is_set:
        from potluck.cli.operate.version import version

        version()
        raise typer.Exit


def potluck(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Everyone brings a GPU: run your work in a pool, and share your own devices."""


def main() -> None:
    open_streams()
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit status."""
    try:
        with use_named_shell(arguments):
            status = build_program()(
                list(arguments) or ["--help"], prog_name="potluck", standalone_mode=False
            )
    except typer.TyperException as error:
        group = getattr(getattr(error, "ctx", None), "command_path", "potluck")
        return report_error(usage_error(error.format_message(), group), "--json" in arguments)
    except typer.Abort:
        return 130
    return status if isinstance(status, int) else 0
