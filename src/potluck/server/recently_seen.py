"""Which nodes this instance has just marked as seen, so that it can skip the next write.

Only the sighting and the owner: a node's rights are looked up for each call.
"""

import asyncio
from collections import OrderedDict

from potluck.model.ids import NodeId
from potluck.store.nodes.nodes import Owner

_MAX_NODES = 10_000


class RecentlySeen:
    def __init__(self) -> None:
        self._at: OrderedDict[tuple[NodeId, Owner], float] = OrderedDict()

    def was_just_seen(self, node_id: NodeId, owner: Owner, seconds: float) -> bool:
        at = self._at.get((node_id, owner))
        return at is not None and asyncio.get_running_loop().time() - at < seconds

    def note(self, node_id: NodeId, owner: Owner) -> None:
        """Remembers that the sighting was stored, by this call or one shortly before."""
        self._at[node_id, owner] = asyncio.get_running_loop().time()
        self._at.move_to_end((node_id, owner))
        if len(self._at) > _MAX_NODES:
            self._at.popitem(last=False)

    def forget(self, node_id: NodeId, owner: Owner) -> None:
        self._at.pop((node_id, owner), None)
