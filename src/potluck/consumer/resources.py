"""Resources: the machines of the pool, and their devices."""

from potluck.consumer.ask import ask
from potluck.consumer.transport import Transport
from potluck.model.device import DeviceKind
from potluck.wire import routes
from potluck.wire.consumer import DevicePage, NodeList, NodeView


class Resources:
    """What a pool has, as anybody in it sees it. One's own machines are in `own_nodes.py`."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def nodes(self) -> list[NodeView]:
        """The machines in the pool."""
        return ask(self._transport, routes.LIST_NODES, NodeList).nodes

    def node(self, node_id: str) -> NodeView:
        return ask(self._transport, routes.GET_NODE, NodeView, {"node_id": node_id})

    def devices(
        self,
        cursor: str | None = None,
        *,
        kind: DeviceKind | None = None,
        model: str | None = None,
        free_milli: int | None = None,
        limit: int | None = None,
    ) -> DevicePage:
        """The devices of the pool and what they serve; `next_cursor` asks for those behind."""
        query = {
            "cursor": cursor,
            "kind": kind,
            "model": model,
            "free_milli": free_milli,
            "limit": limit,
        }
        return ask(self._transport, routes.LIST_DEVICES, DevicePage, query=query)
