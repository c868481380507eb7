"""What every command has in common: whatever goes wrong inside is told in one way."""

import re
from typing import Any

import typer
from typer.core import TyperCommand

from potluck.cli.terminal.error_output import misused, tell
from potluck.cli.terminal.help_text import joined, plainly
from potluck.cli.terminal.screen import leave_the_pipe
from potluck.model.error import PotluckError

# What a shell reports for a program that wrote to a pipe nobody reads.
BROKEN_PIPE_STATUS = 141

# What reads the values says it for programmers.
_IN_OUR_WORDS = {
    "Value error, ": "",
    "Input should be a valid integer.*": "it must be a whole number",
    "Input should be a valid number.*": "it must be a number",
    "Input should be greater than or equal to": "it must be at least",
    "Input should be less than or equal to": "it must be at most",
}


class Command(TyperCommand):
    """A command whose errors become a sentence and an exit status."""

    def __init__(self, *arguments: Any, **named: Any):
        super().__init__(*arguments, **named)
        self.help = joined(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        return list(plainly(super().get_params(ctx)))

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        if extra.get("resilient_parsing"):  # the shell asks, and nobody wants to read why not
            return super().make_context(info_name, args, parent, **extra)
        json = "--json" in args
        try:
            return super().make_context(info_name, args, parent, **extra)
        except typer.TyperException as error:
            path = f"{parent.command_path} {info_name}" if parent else str(info_name)
            status = tell(misused(_sentence(error), path), json)
        except PotluckError as error:  # an option that reads something, such as --template
            status = tell(error, json)
        raise typer.Exit(status)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except BrokenPipeError:
            leave_the_pipe()
            status = BROKEN_PIPE_STATUS
        except Exception as error:  # noqa: BLE001 - the last place that can tell a person
            status = tell(error, self._wants_json(ctx))
        raise typer.Exit(status)

    def _wants_json(self, ctx: Any) -> bool:
        named = [option.name for option in self.params if "--json" in option.opts]
        return any(ctx.params.get(name) for name in named)


def _sentence(error: typer.TyperException) -> str:
    message = error.format_message().strip()
    for pattern, words in _IN_OUR_WORDS.items():
        message = re.sub(pattern, words, message)
    return message if message.endswith((".", "?", "!")) else f"{message}."
