"""Wishes: what owners ask of their nodes from elsewhere, kept until a node has carried it out."""

from collections.abc import Collection

from msgspec.structs import replace

from potluck.model.ids import NodeId
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire import codec
from potluck.wire.owner_request import Wish

_sql = load("wishes")


async def add(connection: Connection, node_id: NodeId, wish: Wish) -> int:
    """Its number. The caller has locked the node."""
    number: int = await connection.fetchval(_sql.add, node_id, wish)
    return number


async def carry_out(connection: Connection, node_id: NodeId, number: int) -> None:
    """The node has carried out all wishes up to this one."""
    await connection.execute(_sql.carry_out, node_id, number)


async def pending(connection: Connection, node_ids: Collection[NodeId]) -> dict[NodeId, list[Wish]]:
    """In the order in which they were asked for."""
    found: dict[NodeId, list[Wish]] = {}
    for row in await connection.fetch(_sql.pending, list(node_ids)):
        wish = replace(codec.decode_json(row["wish"], Wish), number=row["number"])
        found.setdefault(row["node_id"], []).append(wish)
    return found
