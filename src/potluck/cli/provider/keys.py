"""`potluck provider keys|revoke`: the machines that my wallet has authorised."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from potluck.cli.account.ensure_signed_in import owner_client
from potluck.cli.options import JsonOption, ServerOption
from potluck.cli.tasks.resolve_task import short_id
from potluck.cli.terminal.screen import Pane, Screen
from potluck.cli.terminal.table import Cell, TableColumn, show_list, show_table
from potluck.model.units import show_ahead, show_since
from potluck.wire.identity import NodeKeyView


def list_node_keys(server: ServerOption = None, json: JsonOption = False) -> None:
    """Show the node keys that my wallet has authorised."""
    screen = Screen(json)
    with owner_client(screen, server) as potluck:
        keys = potluck.account.node_keys()
    show_list(
        screen,
        "node_keys",
        keys,
        _show,
        "No machine works for your wallet. Add one: `potluck provide`.",
    )


def revoke_node_key(
    key: Annotated[str, typer.Argument(metavar="KEY_ID", show_default=False)],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Revoke a machine's key immediately; its provider stops."""
    screen = Screen(json)
    with owner_client(screen, server) as potluck:
        potluck.account.revoke_node_key(key)
    if json:
        screen.emit({"revoked": key})
    else:
        screen.out.line(f"Revoked {key}.")


def _show(pane: Pane, keys: Sequence[NodeKeyView]) -> None:
    """In a terminal, the full ids only fit without the key column."""
    columns = [
        TableColumn("ID"),
        TableColumn("MACHINE", shrinks=True),
        *(() if pane.is_terminal else (TableColumn("KEY"),)),
        TableColumn("NODE"),
        TableColumn("USED", is_number=True),
        TableColumn("ENDS IN", is_number=True),
    ]
    show_table(pane, columns, [_row(key, pane.is_terminal) for key in keys])


def _row(key: NodeKeyView, is_short: bool) -> list[Cell]:
    now = datetime.now(UTC)
    node = key.node_id or ""
    return [
        *(Cell(key.id), Cell(key.machine)),
        *(() if is_short else (Cell(key.key),)),
        Cell(short_id(node) if is_short and node else node),
        *(Cell(show_since(key.used_at, now)), Cell(show_ahead(key.expires_at, now))),
    ]
