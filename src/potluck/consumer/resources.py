"""Resources: the machines of the pool, and their devices."""

from collections.abc import Sequence

from potluck.consumer.http.api_call import ask
from potluck.consumer.http.transport import Transport
from potluck.model.device import DeviceKind
from potluck.wire import routes
from potluck.wire.consumer import DevicePage, NodeList, NodeView, PoolView


class Resources:
    """What a pool has, as anybody in it sees it. One's own machines are in `own_nodes.py`."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def nodes(self) -> list[NodeView]:
        """The machines in the pool, all of them."""
        found: list[NodeView] = []
        cursor: str | None = None
        while True:
            page = ask(self._transport, routes.LIST_NODES, NodeList, query={"cursor": cursor})
            found += page.nodes
            cursor = page.next_cursor
            if cursor is None:
                return found

    def node(self, node_id: str) -> NodeView:
        """One of them."""
        return ask(self._transport, routes.GET_NODE, NodeView, {"node_id": node_id})

    def pool(self) -> PoolView:
        """The pool in numbers: nodes, devices, and what waits and runs."""
        return ask(self._transport, routes.SHOW_POOL, PoolView)

    def devices(
        self,
        cursor: str | None = None,
        *,
        kind: DeviceKind | None = None,
        model: str | None = None,
        free_milli: int | None = None,
        memory_bytes: int | None = None,
        max_price_micro_per_hour: int | None = None,
        vendor: str | None = None,
        labels: Sequence[str] = (),
        min_reliability: float | None = None,
        limit: int | None = None,
    ) -> DevicePage:
        """The devices of the pool and what they serve; `next_cursor` asks for those behind.

        Only those that are like this, each asked as a task asks for it.
        """
        query = {
            "cursor": cursor,
            "kind": kind,
            "model": model,
            "free_milli": free_milli,
            "memory_bytes": memory_bytes,
            "max_price_micro_per_hour": max_price_micro_per_hour,
            "vendor": vendor,
            "label": tuple(labels) or None,
            "min_reliability": min_reliability,
            "limit": limit,
        }
        return ask(self._transport, routes.LIST_DEVICES, DevicePage, query=query)
