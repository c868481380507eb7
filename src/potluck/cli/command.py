"""What every command has in common: whatever goes wrong inside is told in one way."""

import os
import sys
from typing import Any

import typer
from typer.core import TyperCommand

from potluck.cli.failure import misused, tell

# What a shell reports for a program that wrote to a pipe nobody reads.
BROKEN_PIPE_STATUS = 141


class Command(TyperCommand):
    """A command whose errors become a sentence and an exit status."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        json = "--json" in args
        try:
            return super().make_context(info_name, args, parent, **extra)
        except typer.TyperException as error:
            path = f"{parent.command_path} {info_name}" if parent else str(info_name)
            status = tell(misused(_sentence(error), path), json)
        raise typer.Exit(status)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, typer.TyperException):
            raise
        except BrokenPipeError:
            status = _leave_the_pipe()
        except Exception as error:  # noqa: BLE001 - the last place that can tell a person
            status = tell(error, self._wants_json(ctx))
        raise typer.Exit(status)

    def _wants_json(self, ctx: Any) -> bool:
        named = [option.name for option in self.params if "--json" in option.opts]
        return any(ctx.params.get(name) for name in named)


def _sentence(error: typer.TyperException) -> str:
    message = error.format_message().strip()
    return message if message.endswith((".", "?", "!")) else f"{message}."


def _leave_the_pipe() -> int:
    """Whoever read us has gone; the interpreter must not complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return BROKEN_PIPE_STATUS
