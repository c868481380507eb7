"""The caller's own machines, managed through the server: terms, orders, earnings."""

from collections.abc import Sequence
from datetime import UTC, datetime

from potluck.consumer.http.transport import Transport, call_api
from potluck.model.terms import Order, TermsChange
from potluck.wire import routes
from potluck.wire.consumer import NodeView
from potluck.wire.own_machines import (
    DeviceHistory,
    Earnings,
    NodeExplanation,
    PriceHistory,
    PriceSuggestion,
)
from potluck.wire.owner_request import OwnerOrder


class OwnNodes:
    """Requests of an owner to their nodes. The server stores each until the node carries it out."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def change(self, node_id: str, change: TermsChange) -> NodeView:
        """Requests a change of terms; the returned node lists it among the pending requests."""
        names = {"node_id": node_id}
        return call_api(self._transport, routes.CHANGE_TERMS, NodeView, names, body=change)

    def order(self, node_id: str, order: Order, devices: Sequence[str] = ()) -> NodeView:
        """Orders the node to act on these devices, by uuid or id; on all without any."""
        body = OwnerOrder(order, tuple(devices))
        return call_api(
            self._transport, routes.GIVE_ORDER, NodeView, {"node_id": node_id}, body=body
        )

    def explain(self, node_id: str) -> NodeExplanation:
        """Why the node gets no work, or no more, and what would help."""
        return call_api(self._transport, routes.EXPLAIN_NODE, NodeExplanation, {"node_id": node_id})

    def history(self, device_id: str) -> DeviceHistory:
        """The load of a device in the last hour."""
        return call_api(
            self._transport, routes.DEVICE_HISTORY, DeviceHistory, {"device_id": device_id}
        )

    def price_history(self, device_id: str, limit: int | None = None) -> PriceHistory:
        """The prices that a device had, newest first."""
        return call_api(
            self._transport,
            routes.DEVICE_PRICES,
            PriceHistory,
            {"device_id": device_id},
            query={"limit": limit},
        )

    def suggest_price(self, device_id: str) -> PriceSuggestion:
        """What devices similar to this one of mine earned in the last week."""
        return call_api(
            self._transport, routes.SUGGEST_PRICE, PriceSuggestion, {"device_id": device_id}
        )

    def earnings(self, since: datetime | None = None, until: datetime | None = None) -> Earnings:
        """Earnings by day, node and device; of the last 30 days by default."""
        query = {
            "since": since and since.astimezone(UTC).isoformat(),
            "until": until and until.astimezone(UTC).isoformat(),
        }
        return call_api(self._transport, routes.EARNINGS, Earnings, query=query)
