"""What a group of commands does when none of them is named."""

from typing import Any

from typer.core import TyperGroup

from potluck.cli.terminal.help_text import plainly

_HELP = ("-h", "--help")


class Plain(TyperGroup):
    """With help that people read."""

    def get_params(self, ctx: Any) -> list[Any]:
        return list(plainly(super().get_params(ctx)))


class Helping(Plain):
    """Tells which commands there are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else ["--help"]))


class Listing(Plain):
    """Lists what there is: `potluck keys` is `potluck keys list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in _HELP or not args[0].startswith("-"))
        if ctx.resilient_parsing:  # the shell asks what could stand here
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, args if is_named else ["list", *args])
