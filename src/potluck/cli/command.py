"""The base class of all commands: reports every error in the same way."""

import re
from typing import Any

import typer
from typer.core import TyperCommand

from potluck.cli.terminal.error_output import report_error, usage_error
from potluck.cli.terminal.help_text import join_lines, simplify_parameters, write_help
from potluck.cli.terminal.screen import silence_stdout
from potluck.model.error import PotluckError

# The status that a shell reports for a program that was killed by SIGPIPE.
BROKEN_PIPE_STATUS = 141

# The parsers of option values word their messages for programmers.
_PLAIN_MESSAGES = {
    "Value error, ": "",
    "Input should be a valid integer.*": "it must be a whole number",
    "Input should be a valid number.*": "it must be a number",
    "Input should be greater than or equal to": "it must be at least",
    "Input should be less than or equal to": "it must be at most",
}
_NEGATIVE = re.compile(r"-[0-9.]")


class Command(TyperCommand):
    """A command whose errors become a sentence and an exit status."""

    def __init__(self, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.help = join_lines(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        return list(simplify_parameters(super().get_params(ctx)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_help(self, ctx, formatter)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        if extra.get("resilient_parsing"):  # shell completion shows no errors
            return super().make_context(info_name, args, parent, **extra)
        json = "--json" in args
        words = list(args)  # the parser consumes the list
        try:
            return super().make_context(info_name, args, parent, **extra)
        except typer.TyperException as error:
            path = f"{parent.command_path} {info_name}" if parent else str(info_name)
            status = report_error(usage_error(_sentence(error, words), path), json)
        except PotluckError as error:  # from an option that reads a file, such as --template
            status = report_error(error, json)
        raise typer.Exit(status)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except BrokenPipeError:
            silence_stdout()
            status = BROKEN_PIPE_STATUS
        except Exception as error:  # noqa: BLE001 - the last place that can report it
            status = report_error(error, self._wants_json(ctx))
        raise typer.Exit(status)

    def _wants_json(self, ctx: Any) -> bool:
        names = [option.name for option in self.params if "--json" in option.opts]
        return any(ctx.params.get(name) for name in names)


def _sentence(error: typer.TyperException, args: list[str]) -> str:
    option = getattr(error, "option_name", "")
    if _NEGATIVE.match(option):  # no argument of any command is negative
        number = next((arg for arg in args if arg.startswith(option)), option)
        return f"{number} is negative; numbers here must be positive."
    message = " ".join(error.format_message().split())  # click separates choices by tabs
    for pattern, replacement in _PLAIN_MESSAGES.items():
        message = re.sub(pattern, replacement, message)
    return message if message.endswith((".", "?", "!")) else f"{message}."
