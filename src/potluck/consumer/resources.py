"""The nodes of the pool and their devices."""

from collections.abc import Sequence

from potluck.consumer.http.transport import Transport, call_api, iter_pages
from potluck.model.device import DeviceKind
from potluck.wire import routes
from potluck.wire.consumer import DevicePage, NodeList, NodeView, PoolView
from potluck.wire.dashboard.market import MarketView


class Resources:
    """The pool as every member sees it; the caller's own nodes are in `own_machines.py`."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def nodes(self) -> list[NodeView]:
        """All nodes of the pool."""
        pages = iter_pages(self._transport, routes.LIST_NODES, NodeList)
        return [node for page in pages for node in page.nodes]

    def node(self, node_id: str) -> NodeView:
        """One node."""
        return call_api(self._transport, routes.GET_NODE, NodeView, {"node_id": node_id})

    def market(self) -> MarketView:
        """What is on offer by model: number, prices, and how many tasks wait for it."""
        return call_api(self._transport, routes.MARKET, MarketView)

    def pool(self) -> PoolView:
        """The pool in numbers: nodes, devices, waiting and running tasks."""
        return call_api(self._transport, routes.SHOW_POOL, PoolView)

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
        """A page of devices that match, and their use; pass `next_cursor` to get the next page.

        The filters mean the same as in the requirements of a task.
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
        return call_api(self._transport, routes.LIST_DEVICES, DevicePage, query=query)
