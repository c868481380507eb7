"""Remote requests of owners to their nodes, stored until a node has carried them out."""

from collections.abc import Collection

from msgspec.structs import replace

from potluck.model.ids import NodeId
from potluck.store.database import Connection
from potluck.store.sql_files import load
from potluck.wire import codec
from potluck.wire.owner_request import Wish

_sql = load("pending_requests")


async def add(connection: Connection, node_id: NodeId, wish: Wish) -> int:
    """Returns its number. The caller has locked the node."""
    number: int = await connection.fetchval(*_sql.add(node_id=node_id, wish=wish))
    return number


async def complete(connection: Connection, node_id: NodeId, number: int) -> None:
    """The node has carried out all requests up to this one."""
    await connection.execute(*_sql.carry_out(node_id=node_id, number=number))


async def list_pending(
    connection: Connection, node_ids: Collection[NodeId]
) -> dict[NodeId, list[Wish]]:
    """In the order of their numbers."""
    requests: dict[NodeId, list[Wish]] = {}
    for row in await connection.fetch(*_sql.pending(node_ids=list(node_ids))):
        wish = replace(codec.decode_stored(row["wish"], Wish), number=row["number"])
        requests.setdefault(row["node_id"], []).append(wish)
    return requests
