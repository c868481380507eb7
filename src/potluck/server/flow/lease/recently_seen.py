"""Heard: which nodes this instance has heard a moment ago, so that it need not write it down again.

Only that they were heard, and whose they were: what a node may do is asked for each call anew.
"""

import asyncio
from collections import OrderedDict

from potluck.model.ids import NodeId
from potluck.store.nodes.nodes import Owner

_MOST = 10_000


class Heard:
    def __init__(self) -> None:
        self._at: OrderedDict[tuple[NodeId, Owner], float] = OrderedDict()

    def was_just_heard(self, node_id: NodeId, owner: Owner, seconds: float) -> bool:
        at = self._at.get((node_id, owner))
        return at is not None and asyncio.get_running_loop().time() - at < seconds

    def note(self, node_id: NodeId, owner: Owner) -> None:
        """It is written down, by this call or by another a moment before."""
        self._at[node_id, owner] = asyncio.get_running_loop().time()
        self._at.move_to_end((node_id, owner))
        if len(self._at) > _MOST:
            self._at.popitem(last=False)

    def forget(self, node_id: NodeId, owner: Owner) -> None:
        self._at.pop((node_id, owner), None)
