"""Defaults of commands that submit tasks: from the script, then from the project.

The command line is parsed twice: first to find the script, then with the script's defaults in place
of the built-in ones. A template takes precedence over a project.
"""

import os
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import typer

from potluck.cli.command import Command
from potluck.cli.request.task_kind import STDIN, read_script
from potluck.cli.terminal.screen import Screen, Tone, printable
from potluck.local.project import Default, project_defaults
from potluck.local.task_options import OPTIONS, alias_hint
from potluck.model.error import InvalidInput

_META = "potluck.defaults"
_NOT_SCRIPTS = ("command", "image", "template")
_ALIASES = {f"--{alias}": f"--{row.name}" for row in OPTIONS.values() for alias in row.aliases}


class SendingCommand(Command):
    """`run`, and all commands with its options."""

    def make_parser(self, ctx: Any) -> Any:
        """Also accepts options under their earlier names, which the help does not show."""
        parser = super().make_parser(ctx)
        for alias, name in _ALIASES.items():
            for option in [option for option in self.params if name in option.opts]:
                renamed = copy(option)
                renamed.opts = [alias]
                renamed.add_to_parser(parser, ctx)
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        typed, aliases = self._typed(ctx, args)
        if typed is None or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        names = {option.name for option in self.params}
        used = [row for row in _defaults(typed) if _name(row) in names and not _is_overridden(row)]
        _check_server(used, typed)
        screen = Screen("--json" in args)
        _warn_of_aliases(aliases, used, screen)
        if "--" not in args:  # the user has said where the options end
            self._warn_of_options_after_script(typed, screen)
        if typed.get("env"):  # variables add up, and the last one of a name wins
            args = [*_variables(used), *args]
        ctx.meta[_META] = [row for row in used if row.key == "env" or not typed.get(_name(row))]
        ctx.default_map = {_name(row): row.value for row in used}
        return super().parse_args(ctx, args)

    def _typed(self, ctx: Any, args: list[str]) -> tuple[dict[str, Any] | None, list[str]]:
        """The raw values by parameter, and the aliases used; None if the arguments are invalid,
        which the real parse reports."""
        try:
            typed, _, order = self.make_parser(ctx).parse_args(list(args))
        except typer.TyperException:
            return None, []
        aliases = [option.opts[0] for option in order if option.opts[0] in _ALIASES]
        return None if typed.get("help") else dict(typed), aliases

    def _warn_of_options_after_script(self, typed: dict[str, Any], screen: Screen) -> None:
        """The script gets everything after it, also what was meant for us."""
        own = {name for option in self.params for name in option.opts if name.startswith("--")}
        meant = [word for word in dict.fromkeys(typed.get("arguments") or ()) if word in own]
        if meant:
            options = f"{', '.join(meant)} {'is' if len(meant) == 1 else 'are'}"
            script = printable(typed["script"])
            screen.err.prose(
                f"potluck: {options} passed to {script}; options for Potluck go before it.",
                Tone.WAITING,
            )


def get_used_defaults(context: typer.Context) -> list[Default]:
    """The defaults in effect, with their sources."""
    return list(context.meta.get(_META, ()))


def find_project_server(context: typer.Context) -> Default | None:
    """The server, if only a project names it."""
    return next((row for row in get_used_defaults(context) if row.key == "server"), None)


def _defaults(typed: dict[str, Any]) -> Iterator[Default]:
    """Without the folder if a template is used, which has its own."""
    script = None if any(map(typed.get, _NOT_SCRIPTS)) else typed.get("script")
    source = None
    start = Path()
    if script is not None and script != STDIN and Path(script).is_file():
        source, start = read_script(script)[1], Path(script).parent
    for default in project_defaults(Path(script) if script else None, source, start):
        if default.key != "folder" or not typed.get("template"):
            yield default


def _warn_of_aliases(typed: list[str], used: list[Default], screen: Screen) -> None:
    hints = [alias_hint(alias, _ALIASES[alias]) for alias in dict.fromkeys(typed)]
    hints += [f"{row.where}: {alias_hint(row.alias, row.key)}" for row in used if row.alias]
    for hint in hints:
        screen.err.prose(f"potluck: {hint}", Tone.WAITING)


def _name(default: Default) -> str:
    return default.key.replace("-", "_")


def _variables(used: list[Default]) -> list[str]:
    values = [value for default in used if default.key == "env" for value in default.value]
    return [word for value in values for word in ("--env", value)]


def _is_overridden(default: Default) -> bool:
    """Whether the environment takes precedence over the file."""
    return default.key == "server" and bool(os.environ.get("POTLUCK_URL"))


def _check_server(used: list[Default], typed: dict[str, Any]) -> None:
    """Projects are untrusted: neither the token in the environment nor a secret is sent to a server
    that only a project names."""
    server = next((default for default in used if default.key == "server"), None)
    if typed.get("server") or server is None:
        return
    if os.environ.get("POTLUCK_TOKEN"):
        raise _untrusted(server, "POTLUCK_TOKEN")
    if typed.get("secret") and not _is_in_profile(server):
        raise _untrusted(server, "the secrets")


def _untrusted(server: Default, content: str) -> InvalidInput:
    return InvalidInput(
        f"{server.where} names the server {printable(server.value)}, and {content} would be sent"
        " there.",
        "Name the server with --server.",
    )


def _is_in_profile(server: Default) -> bool:
    from potluck.consumer.http.server_address import normalize_url
    from potluck.consumer.identity.profile import load_profile_for

    return load_profile_for(normalize_url(server.value)) is not None
