"""The caller's own machines, managed remotely."""

from typing import Final

from msgspec.structs import replace

from potluck.model.account import Scope
from potluck.model.error import Conflict
from potluck.model.ids import DeviceId, is_id
from potluck.model.node import NodeState
from potluck.model.terms import Order, TermsChange
from potluck.server.api.area import Area
from potluck.server.api.examples.machine import NODE_VIEW, SAMPLE
from potluck.server.api.examples.names import DEVICE, GPU, NODE, at
from potluck.server.api.http.parameters import CallerRequest, node_id_of
from potluck.server.flow.lease import device_status, owner_requests
from potluck.server.flow.schedule.explain_node import explain_node as explain_idle_node
from potluck.server.services import Services
from potluck.store.nodes.device_list import no_such_device
from potluck.wire import routes
from potluck.wire.consumer import NodeView
from potluck.wire.own_machines import DeviceHistory, NodeExplanation, NodeReason
from potluck.wire.owner_request import OwnerOrder, Wish

# Examples.
_CHANGE = TermsChange(devices=(GPU,), price_micro_per_hour=250_000, hours="mon-fri 18:00-08:00")
_ORDER = OwnerOrder(Order.RECLAIM, (GPU,))
_MINE = replace(NODE_VIEW, is_mine=True)
_MODEL = "12 tasks need another model."

AREA: Final = Area(
    "machines",
    "Manage your own machines remotely: price, hours and limits of each device, reclaim devices, "
    "and see why a machine gets no work.",
)


@AREA.operation(
    routes.CHANGE_TERMS,
    Scope.NODES_WRITE,
    "Change the terms of a machine",
    request=_CHANGE,
    response=replace(_MINE, wishes=[Wish(7, _CHANGE)]),
    errors=(Conflict,),
    status_code=202,
)
async def change_terms(
    node_id: str, data: TermsChange, request: CallerRequest, services: Services
) -> NodeView:
    """Asks one of your machines to change its terms. A pause takes effect immediately."""
    return await owner_requests.change(services, request.user, node_id_of(node_id), data)


@AREA.operation(
    routes.GIVE_ORDER,
    Scope.NODES_WRITE,
    "Reclaim devices, or drain a machine",
    request=_ORDER,
    response=replace(_MINE, wishes=[Wish(8, order=_ORDER)]),
    errors=(Conflict,),
    status_code=202,
)
async def give_order(
    node_id: str, data: OwnerOrder, request: CallerRequest, services: Services
) -> NodeView:
    """Reclaims devices, or lets one of your machines finish its running tasks and stop."""
    return await owner_requests.order(services, request.user, node_id_of(node_id), data)


@AREA.operation(
    routes.EXPLAIN_NODE,
    Scope.POOL_READ,
    "Ask why a machine gets no work",
    response=NodeExplanation(
        NODE,
        NodeState.ONLINE,
        "It has room, but no waiting task fits it.",
        waiting=12,
        reasons=[NodeReason("device_model", 12, _MODEL)],
        changes=["Nothing: it gets the next task that needs a device like its own."],
        at=at(9, 42),
    ),
)
async def explain_node(node_id: str, request: CallerRequest, services: Services) -> NodeExplanation:
    """Explains why your node gets no work: what keeps waiting tasks from it, and what helps."""
    return await explain_idle_node(services, request.user.id, node_id_of(node_id))


@AREA.operation(
    routes.DEVICE_HISTORY,
    Scope.POOL_READ,
    "See the last hour of a device",
    response=DeviceHistory(DEVICE, [SAMPLE]),
)
async def device_history(
    device_id: str, request: CallerRequest, services: Services
) -> DeviceHistory:
    """Returns measurements of your device from the last hour, for plots."""
    if not is_id(device_id, "device"):
        raise no_such_device(device_id[:64])
    return await device_status.history(services, request.user.id, DeviceId(device_id))
