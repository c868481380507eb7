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
from potluck.cli.terminal.screen import printable
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


def project_server(context: typer.Context) -> Default | None:
    """The server, if nobody but a project names it."""
    return next((each for each in defaults_used(context) if each.key == "server"), None)


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
    """A project may be anybody's: neither a key that is in the environment nor a secret follows it
    to a server that nobody else has named."""
    named = next((each for each in used if each.key == "server"), None)
    if typed.get("server") or named is None:
        return
    if os.environ.get("POTLUCK_TOKEN"):
        raise _would_go_there(named, "POTLUCK_TOKEN")
    if typed.get("secret") and not _is_of_profile(named):
        raise _would_go_there(named, "the secrets")


def _would_go_there(named: Default, what: str) -> InvalidInput:
    return InvalidInput(
        f"{named.where} names the server {printable(named.value)}, and {what} would go there.",
        "Say which one you mean with --server.",
    )


def _is_of_profile(named: Default) -> bool:
    from potluck.consumer.http.server_address import spelled_url
    from potluck.consumer.identity.profile import saved_for

    return saved_for(spelled_url(named.value)) is not None
