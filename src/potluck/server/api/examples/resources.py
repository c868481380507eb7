"""What is on offer."""

from typing import Final

from potluck.server.api.examples.example import Area, Example
from potluck.server.api.examples.machine import NODE_VIEW, POOL_DEVICE
from potluck.wire.consumer import DeviceCounts, DevicePage, NodeList, PoolView

AREA: Final = Area(
    "resources",
    "What is on offer: machines and their devices, with model, memory, price, and how much of "
    "each is free.",
    {
        "list_devices": Example("List the pool's devices", answer=DevicePage([POOL_DEVICE])),
        "list_nodes": Example("List the pool's machines", answer=NodeList([NODE_VIEW])),
        "show_pool": Example(
            "See the pool in numbers",
            answer=PoolView(12, 1, DeviceCounts(9, 6, 1), DeviceCounts(4), 37, 8, 100_000),
        ),
        "get_node": Example("See one machine", answer=NODE_VIEW),
    },
)
