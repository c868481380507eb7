"""`potluck provider keys|revoke`: the machines that my wallet lets work for it."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.screen import Screen
from potluck.cli.table import Cell, Column, show_table
from potluck.cli.units import show_ahead, show_since
from potluck.wire.identity import NodeKeyView


def list_node_keys(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show the node keys that my wallet has authorised."""
    screen = Screen(json)
    with connect(server) as potluck:
        found = potluck.account.node_keys()
    if json:
        screen.emit({"node_keys": found})
    elif found:
        columns = [
            *(Column("ID"), Column("MACHINE", shrinks=True), Column("KEY", shrinks=True)),
            *(Column("NODE"), Column("USED", is_number=True), Column("ENDS IN", is_number=True)),
        ]
        show_table(screen.out, columns, [_row(key) for key in found])
    else:
        screen.err.line("No machine works for your wallet. `potluck provide` brings one.")


def revoke_node_key(
    key: Annotated[str, typer.Argument(metavar="KEY_ID", show_default=False)],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Take a machine's key its rights, at once; its provider ends."""
    screen = Screen(json)
    with connect(server) as potluck:
        potluck.account.revoke_node_key(key)
    if json:
        screen.emit({"revoked": key})
    else:
        screen.out.line(f"Revoked {key}.")


def _row(key: NodeKeyView) -> list[Cell]:
    now = datetime.now(UTC)
    used = show_since(key.used_at, now)
    return [
        *(Cell(key.id), Cell(key.machine), Cell(key.key), Cell(key.node_id or "")),
        *(Cell(used), Cell(show_ahead(key.expires_at, now))),
    ]
