"""`potluck admin cordon` and `uncordon`: whether a node gets new work."""

from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.options import JsonOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, printable
from potluck.model.error import InvalidInput, NotFound

if TYPE_CHECKING:
    from potluck.consumer import Potluck

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
    screen = Screen(json)
    with connect(server) as potluck:
        node_id = _find_node(potluck, node)
        potluck.admin.cordon(node_id, reason)
    if json:
        screen.emit({"node_id": node_id, "cordoned": True})
    else:
        screen.out.line(f"{printable(node)} gets no new work. Undo with `potluck admin uncordon`.")


def uncordon(node: NodeArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Allow new work on a node again."""
    screen = Screen(json)
    with connect(server) as potluck:
        node_id = _find_node(potluck, node)
        potluck.admin.uncordon(node_id)
    if json:
        screen.emit({"node_id": node_id, "cordoned": False})
    else:
        screen.out.line(f"{printable(node)} gets new work again.")


def _find_node(potluck: "Potluck", name: str) -> str:
    if name.startswith("node_"):
        return name
    ids = [node.id for node in potluck.resources.nodes() if node.name == name]
    if not ids:
        raise NotFound(f"There is no node {name!r} here.", "`potluck nodes` lists them.")
    if len(ids) > 1:
        raise InvalidInput(
            f"{len(ids)} nodes are named {name!r}.", f"Name one of {', '.join(ids)}."
        )
    return ids[0]
