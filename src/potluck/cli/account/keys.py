"""`potluck keys`: API keys, for CI and scripts."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.account.lifetime import parse_lifetime
from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.cli.terminal.table import Cell, TableColumn, show_table
from potluck.cli.terminal.units import show_ahead, show_since
from potluck.model.account import SCOPES, Credential, Scope
from potluck.wire.identity import KeyView

USUAL = [Scope.TASKS_READ, Scope.TASKS_WRITE, Scope.POOL_READ]


def list_keys(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show my keys; what they are was shown when they were made."""
    screen = Screen(json)
    with connect(server) as potluck:
        found = potluck.account.keys()
    if json:
        screen.emit({"keys": found})
    elif found:
        columns = [
            *(
                TableColumn("ID"),
                TableColumn("NAME", shrinks=True),
                TableColumn("SCOPES", shrinks=True),
            ),
            *(TableColumn("USED", is_number=True), TableColumn("ENDS IN", is_number=True)),
        ]
        show_table(screen.out, columns, [_row(key) for key in found])
    else:
        screen.err.line("You have no keys. Make one with `potluck keys add NAME`.")


def add_key(
    name: Annotated[str, typer.Argument(help="What it is for.", show_default=False)],
    scope: Annotated[
        list[Scope] | None,
        typer.Option(
            help=f"What it may do, of: {', '.join(sorted(SCOPES[Credential.KEY]))}. Repeat it.",
            show_default="tasks and pool:read",
            metavar="SCOPE",
        ),
    ] = None,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="How long it is good, such as 12h or 30d.")
    ] = "90d",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Make a key and show it, this once."""
    screen = Screen(json)
    lasting = parse_lifetime(expires)
    with connect(server) as potluck:
        made = potluck.account.make_key(name, scope or USUAL, lasting)
        url, ca_file = potluck.url, potluck.ca_file
    if json:
        screen.emit(made)
        return
    screen.err.line(f"Made {made.key.id} for {', '.join(made.key.scopes)}:")
    screen.out.line(made.secret)
    screen.err.line("It is shown this once. Where it is used:")
    screen.err.line(f"  export POTLUCK_URL={url} POTLUCK_TOKEN=…", Tone.STRONG)
    if ca_file is not None:
        screen.err.line(f"  export POTLUCK_CA_FILE={ca_file}", Tone.STRONG)
        screen.err.line("(that file, copied along: the server has an authority of its own)")


def revoke_key(
    key: Annotated[str, typer.Argument(metavar="KEY_ID", show_default=False)],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Make a key worth nothing, at once."""
    screen = Screen(json)
    with connect(server) as potluck:
        potluck.account.revoke_key(key)
    if json:
        screen.emit({"revoked": key})
    else:
        screen.out.line(f"Revoked {key}.")


def _row(key: KeyView) -> list[Cell]:
    now = datetime.now(UTC)
    used = show_since(key.used_at, now)
    return [
        *(Cell(key.id), Cell(key.name), Cell(", ".join(key.scopes))),
        *(Cell(used), Cell(show_ahead(key.expires_at, now))),
    ]
