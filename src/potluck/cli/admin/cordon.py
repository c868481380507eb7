"""`potluck admin cordon`, `uncordon` and `remove-node`: what admins do about a node."""

from typing import Annotated

import typer

from potluck.cli.admin.change import NODE, change
from potluck.cli.options import JsonOption, ServerOption
from potluck.cli.terminal.screen import printable

NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="A node's id or name.", show_default=False)
]


def cordon(
    node: NodeArgument,
    reason: Annotated[str, typer.Option(help="The reason; everyone in the pool sees it.")] = "",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Stop new work on a node; running work finishes."""
    change(
        NODE,
        node,
        lambda admin, node_id: admin.cordon(node_id, reason),
        {"cordoned": True},
        f"{printable(node)} gets no new work. Undo with `potluck admin uncordon`.",
        server,
        json,
    )


def uncordon(node: NodeArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Allow new work on a node again."""
    change(
        NODE,
        node,
        lambda admin, node_id: admin.uncordon(node_id),
        {"cordoned": False},
        f"{printable(node)} gets new work again.",
        server,
        json,
    )


def remove_node(
    node: NodeArgument,
    reason: Annotated[str, typer.Option(help="The reason, for the audit log.")] = "",
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Remove a node of any owner that will not return.

    Only a silent node can be removed. Other wallets can then offer its devices. If its
    provider returns, it registers again.
    """
    change(
        NODE,
        node,
        lambda admin, node_id: admin.remove_node(node_id, reason),
        {"removed": True},
        f"{printable(node)} is no longer in the pool.",
        server,
        json,
    )
