"""Options and arguments that several commands share, and groups of options.

A group is a frozen dataclass whose fields are annotated like a command's parameters. A command
takes one value per group. A group may contain other groups. Its `panel`, if any, is the help panel
of those options that name no panel.
"""

import inspect
import os
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from potluck.cli.completion import complete_task_ids
from potluck.model.error import InvalidInput

if TYPE_CHECKING:
    from potluck.consumer import Potluck


R = TypeVar("R")
ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="The server to use instead of the one in your profile."
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help='Write only JSON to stdout; an error is the last line, {"error": {…}}.'
    ),
]
RawOption = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="In a terminal, write the output exactly as the task did, so that it can control the"
        " terminal; in a pipe it is always exact.",
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show which nodes could run it, at what price and when; upload and submit nothing.",
    ),
]
OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="With -o: replace files with other content; else the new ones go to DIR/potluck-….",
        rich_help_panel="Files and secrets",
    ),
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=10_000, help="Show at most N, the newest.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", "-d", help="Print the task's id and return immediately.")
]
DataDirOption = Annotated[
    str | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="The directory for all data; server and provider have folders in it.",
    ),
]
UrlArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        help="The server, such as http://127.0.0.1:8470; default: the one in your profile.",
        show_default=False,
    ),
]
BrowserOption = Annotated[
    bool, typer.Option("--browser", help="Sign with the wallet in your browser.")
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="Your wallet: a keystore, or a private key that only you can read.",
    ),
]
CaFingerprintOption = Annotated[
    str | None,
    typer.Option(
        "--ca-fingerprint",
        metavar="sha256:HEX",
        help="The fingerprint of the server's certificate authority, as the server printed it.",
    ),
]
InviteOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE", help="Your invitation, if the pool needs one.", envvar="POTLUCK_INVITE"
    ),
]
TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="The task's name, its id, or the beginning or end of the id.",
        show_default=False,
        autocompletion=complete_task_ids,
    ),
]
NewestTaskArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK",
        help="The task's name, its id, or the beginning or end of the id; default: the newest.",
        show_default=False,
        autocompletion=complete_task_ids,
    ),
]


def expand_option_groups(command: Callable[..., R]) -> Callable[..., R]:
    """Replaces each group among the command's parameters by its options."""
    parameters = list(_parameters(command))

    @wraps(command)
    def with_groups(**values: Any) -> R:
        return command(**{parameter.name: _value(parameter, values) for parameter in parameters})

    options = [option for parameter in parameters for option in _options(parameter)]
    with_groups.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {option.name: option.annotation for option in options}
    return with_groups


def _parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _options(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    group = _group(parameter)
    if group is None:
        yield parameter
        return
    panel: str | None = getattr(group, "panel", None)
    for field in _parameters(group):
        for option in _options(field):
            yield option if panel is None else _with_panel(option, panel)


def _with_panel(option: inspect.Parameter, panel: str) -> inspect.Parameter:
    """A copy, since other commands may show the option in another panel."""
    kind, shared = get_args(option.annotation)
    info = copy(shared)
    info.rich_help_panel = shared.rich_help_panel or panel
    return option.replace(annotation=Annotated[kind, info])


def _value(parameter: inspect.Parameter, values: dict[str, Any]) -> Any:
    group = _group(parameter)
    if group is None:
        return values[parameter.name]
    return group(**{field.name: _value(field, values) for field in _parameters(group)})


def _group(parameter: inspect.Parameter) -> type | None:
    kind = parameter.annotation
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def parse_directory(name: str) -> Path:
    """Refuses an empty name: it comes from an unset variable and does not mean `.`."""
    if not name:
        raise InvalidInput(
            "The name of a directory is empty.",
            "Check the variable that it comes from; `.` is the current directory.",
        )
    return Path(name)


def connect(server: str | None) -> "Potluck":
    """Opens a client for this server, the one in the profile, or this machine's pool."""
    from potluck.consumer import Potluck

    return Potluck(resolve_server_url(server))


def resolve_server_url(server: str | None) -> str | None:
    """This server or this machine's pool; None leaves it to POTLUCK_URL and the profile."""
    return _own_pool() if server is None else server


def _own_pool() -> str | None:
    """The server that this machine provides to, for users who have no profile yet."""
    from potluck.consumer.identity.profile import load_url

    if os.environ.get("POTLUCK_URL") or load_url():
        return None
    urls = own_pools()
    return urls[0] if len(urls) == 1 else None


def own_pools() -> list[str]:
    """The servers that this machine provides to."""
    from potluck.cli.provider.local import provider_directory
    from potluck.provider.data_directory import known_urls

    try:
        return known_urls(provider_directory(None))
    except OSError:
        return []
