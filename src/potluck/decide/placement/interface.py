"""Which of the rooms that would do is best: what a placement policy has to say.

A policy scores what would be taken, and the least wins. Scores that differ by no more than
`tolerance` are equal, and of equals the cheapest wins, then the first in the fixed order of the
nodes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Struct

from potluck.decide.pool.demand import Usable, Want
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.model.task import Requirements


class PlacementChoice(Struct, gc=False):
    """These devices of that room for such a task. The devices of a room go by their position:
    `room.milli[each.position]` is what is free of the device that `each` of `taken` would use."""

    want: Want
    room: NodeCapacity
    taken: tuple[Usable, ...]


class Placement(ABC):
    # At how many rooms it looks, the first in the fixed order that would do; None: at all of them.
    looks_at: int | None = None
    tolerance: float = 0.0
    # Scores of different epochs are not compared with each other.
    epoch: int = 0
    # Whether it wants to be prepared anew.
    is_due: bool = False

    @abstractmethod
    def score(self, choice: PlacementChoice) -> float:
        """What the choice costs; the least wins."""

    def learn(self, requirements: Requirements, count: int) -> None:  # noqa: B027
        """So many tasks more ask for this."""

    def prepare(self, profiles: Sequence[NodeProfile]) -> None:  # noqa: B027
        """These are the nodes there are; called before the first score, and when much changed."""
