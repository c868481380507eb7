"""Commands that send tasks: what nobody typed comes from the script, then from the project.

The words are looked at twice: once to know which script is meant, and then with its defaults in
the place of ours. What a template says goes before a project, which does not know of it.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from potluck.cli.command import Command
from potluck.cli.request.script import STDIN, read_script
from potluck.local.project import Default, project_defaults
from potluck.model.error import InvalidInput

_META = "potluck.defaults"
_NOT_SCRIPTS = ("command", "image", "template")


class SendingCommand(Command):
    """`run`, and all that takes its options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        typed = self._typed(ctx, args)
        if typed is None or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        known = {option.name for option in self.params}
        used = [each for each in _defaults(typed) if _name(each) in known and not _is_set(each)]
        _check_server(used, typed)
        if typed.get("env"):  # variables are added one by one, and the last one of a name wins
            args = [*_variables(used), *args]
        ctx.meta[_META] = [each for each in used if each.key == "env" or not typed.get(_name(each))]
        ctx.default_map = {_name(each): each.value for each in used}
        return super().parse_args(ctx, args)

    def _typed(self, ctx: Any, args: list[str]) -> dict[str, Any] | None:
        """What was typed, as it was typed; nothing if it can not be read, which is told later."""
        try:
            typed, _, _ = self.make_parser(ctx).parse_args(list(args))
        except typer.TyperException:
            return None
        return None if typed.get("help") else dict(typed)


def defaults_used(context: typer.Context) -> list[Default]:
    """What was not typed, and where it comes from."""
    return list(context.meta.get(_META, ()))


def _defaults(typed: dict[str, Any]) -> Iterator[Default]:
    """A template brings a folder of its own."""
    script = None if any(typed.get(each) for each in _NOT_SCRIPTS) else typed.get("script")
    source = None
    start = Path()
    if script is not None and script != STDIN and Path(script).is_file():
        source, start = read_script(script)[1], Path(script).parent
    for each in project_defaults(Path(script) if script else None, source, start):
        if each.key != "folder" or not typed.get("template"):
            yield each


def _name(default: Default) -> str:
    """Of the command's parameter."""
    return default.key.replace("-", "_")


def _variables(used: list[Default]) -> list[str]:
    said = [value for each in used if each.key == "env" for value in each.value]
    return [word for value in said for word in ("--env", value)]


def _is_set(default: Default) -> bool:
    """Whether the environment says otherwise, which is nearer to who types than a file is."""
    return default.key == "server" and bool(os.environ.get("POTLUCK_URL"))


def _check_server(used: list[Default], typed: dict[str, Any]) -> None:
    """A project may be anybody's: a key that is in the environment does not follow it."""
    if typed.get("server") or not os.environ.get("POTLUCK_TOKEN"):
        return
    for each in used:
        if each.key == "server":
            raise InvalidInput(
                f"{each.where} names the server {each.value}, and POTLUCK_TOKEN would go there.",
                "Say which one you mean with --server.",
            )
