"""One's own machines, from elsewhere."""

from typing import Final

import msgspec

from potluck.model.node import NodeState
from potluck.model.terms import Order, TermsChange
from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.machine import NODE_VIEW, SAMPLE
from potluck.server.api.examples.names import DEVICE, GPU, NODE, at
from potluck.wire.own_machines import DeviceHistory, NodeExplanation, NodeReason
from potluck.wire.owner_request import OwnerOrder, Wish

_CHANGE = TermsChange(devices=(GPU,), price_micro_per_hour=250_000, hours="mon-fri 18:00-08:00")
_ORDER = OwnerOrder(Order.RECLAIM, (GPU,))
_MINE = msgspec.structs.replace(NODE_VIEW, is_mine=True)
_MODEL = "12 tasks ask for another model."

AREA: Final = Area(
    "machines",
    "Your own machines, from wherever you are: price, hours and limits of each device, your "
    "device back now, and why a machine gets no work.",
    {
        "change_terms": Example(
            "Change the terms of a machine",
            _CHANGE,
            msgspec.structs.replace(_MINE, wishes=[Wish(7, _CHANGE)]),
        ),
        "give_order": Example(
            "Want devices back, or let a machine end",
            _ORDER,
            msgspec.structs.replace(_MINE, wishes=[Wish(8, order=_ORDER)]),
        ),
        "explain_node": Example(
            "Ask why a machine gets no work",
            answer=NodeExplanation(
                NODE,
                NodeState.ONLINE,
                "It has room, and nothing that waits fits it.",
                waiting=12,
                reasons=[NodeReason("device_model", 12, _MODEL)],
                changes=["Nothing: it is next when somebody asks for a device like its own."],
                at=at(9, 42),
            ),
        ),
        "device_history": Example(
            "See how a device did in the last hour", answer=DeviceHistory(DEVICE, [SAMPLE])
        ),
    },
)
