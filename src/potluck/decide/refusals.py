"""How many nodes refuse a task for which reason, at a cost that follows the kinds of nodes.

Where there are few nodes each is asked. Where there are many, those of one kind refuse for the same
lasting reason, and for a passing one a few of them speak for all.
"""

from collections import Counter

from potluck.decide.capacity import Capacity
from potluck.decide.feasible import Refusal, fit, suitable
from potluck.decide.snapshot import WaitingTask
from potluck.decide.suitable import Suitability
from potluck.model.ids import NodeId

_FEW_NODES = 200
_SPEAKERS = 16


class Refusals:
    def __init__(self, capacity: Capacity, suitability: Suitability) -> None:
        self._capacity = capacity
        self._suitability = suitability

    def count(self, task: WaitingTask) -> Counter[Refusal]:
        if len(self._suitability.nodes) <= _FEW_NODES:
            return self._capacity.refusals(task)
        counts: Counter[Refusal] = Counter()
        for node, node_ids in self._suitability.kinds():
            lasting = suitable(task, node)
            if isinstance(lasting, Refusal):
                counts[lasting] += len(node_ids)
            else:
                counts += self._passing(task, node_ids)
        return counts

    def _passing(self, task: WaitingTask, node_ids: list[NodeId]) -> Counter[Refusal]:
        """As far as a node does not say otherwise, its devices are in use."""
        nodes = [self._suitability.nodes[node_id] for node_id in node_ids[:_SPEAKERS]]
        answers = (fit(task, node) for node in nodes)
        spoken = Counter(
            answer if isinstance(answer, Refusal) else Refusal.DEVICE_BUSY for answer in answers
        )
        scaled = Counter(
            {each: len(node_ids) * count // len(nodes) for each, count in spoken.items()}
        )
        scaled[spoken.most_common(1)[0][0]] += len(node_ids) - scaled.total()
        return scaled
