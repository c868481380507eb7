"""One's own machines, from wherever one is: their terms, orders to them, what they earn."""

from collections.abc import Sequence
from datetime import UTC, datetime

from potluck.consumer.http.api_call import ask
from potluck.consumer.http.transport import Transport
from potluck.model.terms import Order, TermsChange
from potluck.wire import routes
from potluck.wire.consumer import NodeView
from potluck.wire.own_machines import DeviceHistory, Earnings, NodeExplanation
from potluck.wire.owner_request import OwnerOrder


class OwnNodes:
    """What an owner asks of machines. The node carries it out; the server keeps it until then."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def change(self, node_id: str, change: TermsChange) -> NodeView:
        """The node with the wish among those that it has not carried out yet."""
        named = {"node_id": node_id}
        return ask(self._transport, routes.CHANGE_TERMS, NodeView, named, body=change)

    def order(self, node_id: str, order: Order, devices: Sequence[str] = ()) -> NodeView:
        """About these devices, by uuid or id; without any, about all of the node."""
        body = OwnerOrder(order, tuple(devices))
        return ask(self._transport, routes.GIVE_ORDER, NodeView, {"node_id": node_id}, body=body)

    def explain(self, node_id: str) -> NodeExplanation:
        """Why it gets no work, or no more, and what would help."""
        named = {"node_id": node_id}
        return ask(self._transport, routes.EXPLAIN_NODE, NodeExplanation, named)

    def history(self, device_id: str) -> DeviceHistory:
        """How a device did in the last hour."""
        named = {"device_id": device_id}
        return ask(self._transport, routes.DEVICE_HISTORY, DeviceHistory, named)

    def earnings(self, since: datetime | None = None, until: datetime | None = None) -> Earnings:
        """What one's machines were paid, by day, node and device; in the last 30 days."""
        query = {
            "since": since and since.astimezone(UTC).isoformat(),
            "until": until and until.astimezone(UTC).isoformat(),
        }
        return ask(self._transport, routes.EARNINGS, Earnings, query=query)
