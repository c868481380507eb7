"""Options that many commands share, worded once."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.completion import task_ids
from potluck.model.error import InvalidInput

if TYPE_CHECKING:
    from potluck.consumer import Potluck


def directory(name: str) -> Path:
    """As it stands on the command line. Nothing is what a variable gives that is not set, and not
    the directory where one is.
    """
    if not name:
        raise InvalidInput(
            "The name of a directory is empty.",
            "Look at the variable that it comes from; `.` is the directory where you are.",
        )
    return Path(name)


ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="The server to ask, instead of the one in your profile."
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json",
        help='Write JSON to stdout and nothing else; an error is the last line, {"error": {…}}.',
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say who could take it, for how much and when; upload and submit nothing.",
    ),
]
DetachOption = Annotated[
    bool, typer.Option("--detach", "-d", help="Do not wait; show its id and return.")
]
DataDirOption = Annotated[
    str | None, typer.Option("--data-dir", metavar="DIR", help="Where everything is kept.")
]
UrlArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        help="The server, such as http://127.0.0.1:8470. Without it, your profile's.",
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
        help="Of the server's own certificate authority, as it printed it.",
    ),
]
InviteOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE", help="For a pool that takes invited accounts.", envvar="POTLUCK_INVITE"
    ),
]
TaskArgument = Annotated[
    str,
    typer.Argument(
        metavar="TASK",
        help="Its name or its id, of that also the beginning or end.",
        show_default=False,
        autocompletion=task_ids,
    ),
]
NewestTaskArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="TASK",
        help="Its name or its id, of that also the beginning or end; without it, your newest.",
        show_default=False,
        autocompletion=task_ids,
    ),
]


def connect(server: str | None) -> "Potluck":
    """The client for the named server, for the one in the profile, or for this machine's pool."""
    from potluck.consumer import Potluck

    return Potluck(server_url(server))


def server_url(server: str | None) -> str | None:
    """The one that was named, or this machine's pool; none leaves it to variable and profile."""
    return _own_pool() if server is None else server


def _own_pool() -> str | None:
    """Whoever has only provided so far has no profile, and still means that server."""
    from potluck.consumer.identity.profile import saved_url

    if os.environ.get("POTLUCK_URL") or saved_url():
        return None
    from potluck.cli.provider.local import provider_directory
    from potluck.provider.data_directory import known_urls

    try:
        known = known_urls(provider_directory(None))
    except OSError:
        return None
    return known[0] if len(known) == 1 else None
