"""`potluck keys`: API keys, for CI and scripts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.account.lifetime import parse_lifetime
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.cli.terminal.table import Cell, TableColumn, show_list, show_table
from potluck.model.account import ROLE_FOR, SCOPES, Credential, Scope
from potluck.model.error import InvalidInput
from potluck.model.units import show_ahead, show_count, show_since
from potluck.wire.identity import KeyView

DEFAULT_SCOPES = [Scope.TASKS_READ, Scope.TASKS_WRITE, Scope.POOL_READ]


def list_keys(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show my keys, without their secrets."""
    screen = Screen(json)
    with connect(server) as potluck:
        keys = potluck.account.keys()
    show_list(
        screen, "keys", keys, _show, "You have no keys. Make one with `potluck keys add NAME`."
    )


def _show(pane: Pane, keys: Sequence[KeyView]) -> None:
    columns = [
        TableColumn("ID"),
        TableColumn("NAME", shrinks=True),
        TableColumn("SCOPES", shrinks=True),
        TableColumn("USED", is_number=True),
        TableColumn("ENDS IN", is_number=True),
    ]
    show_table(pane, columns, [_row(key) for key in keys])


def add_key(
    name: Annotated[str, typer.Argument(help="Its name, for your reference.", show_default=False)],
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            help=f"Its scopes: {', '.join(sorted(SCOPES[Credential.KEY]))}. Repeatable.",
            show_default="tasks and pool:read",
            metavar="SCOPE",
        ),
    ] = None,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="Its lifetime, such as 12h or 30d.")
    ] = "90d",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Make a key and show its secret, once."""
    screen = Screen(json)
    lifetime_seconds = parse_lifetime(expires)
    with connect(server) as potluck:
        new_key = potluck.account.make_key(name, scope or DEFAULT_SCOPES, lifetime_seconds)
        url, ca_file = potluck.url, potluck.ca_file
    if json:
        screen.emit(new_key)
        return
    screen.err.line(f"Made {new_key.key.id} for {', '.join(new_key.key.scopes)}:")
    screen.out.line(new_key.secret)
    for unusable in new_key.unusable_scopes:
        role = ROLE_FOR[unusable]
        screen.err.line(
            f"Your account does not have the role {role}: {unusable} will be refused.", Tone.BAD
        )
    screen.err.line("It is shown only once. To use it:")
    screen.err.line(f"  export POTLUCK_URL={url} POTLUCK_TOKEN=…", Tone.STRONG)
    if ca_file is not None:
        screen.err.line(f"  export POTLUCK_CA_FILE={ca_file}", Tone.STRONG)
        screen.err.line("(copy that file, too: the server has its own certificate authority)")


def revoke_key(
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="Its name or id.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Revoke all my keys.")] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Revoke a key, or all keys, immediately."""
    screen = Screen(json)
    if (key is not None) is everything:
        raise InvalidInput(
            "Name one key, or all of them with --all.", "`potluck keys list` shows them."
        )
    with connect(server) as potluck:
        if key is None:
            revoked = potluck.account.revoke_keys()
        else:
            key = _find_key_id(potluck.account.keys(), key)
            potluck.account.revoke_key(key)
    if json:
        screen.emit({"revoked": revoked if key is None else key})
    elif key is not None:
        screen.out.line(f"Revoked {key}.")
    else:
        screen.out.line(f"Revoked {show_count(len(revoked), 'key')}.")


def _find_key_id(keys: Sequence[KeyView], word: str) -> str:
    """The id of the key with this id or name. An unknown word is left to the server to refuse."""
    named = [] if word in {key.id for key in keys} else [key for key in keys if key.name == word]
    if len(named) > 1:
        raise InvalidInput(
            f"{len(named)} keys have the name {printable(word)}.",
            f"Name one by its id: {', '.join(key.id for key in named)}.",
        )
    return named[0].id if named else word


def _row(key: KeyView) -> list[Cell]:
    now = datetime.now(UTC)
    used = show_since(key.used_at, now)
    return [
        *(Cell(key.id), Cell(key.name), Cell(", ".join(key.scopes))),
        *(Cell(used), Cell(show_ahead(key.expires_at, now))),
    ]
