"""The interface of placement policies, which choose among the nodes that fit a task.

A policy scores each choice, and the lowest score wins. Scores that differ by at most `tolerance`
are equal; among equals the cheapest wins, then the first in the fixed order of the nodes.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from msgspec import Struct

from potluck.decide.pool.demand import Demand, Usable
from potluck.decide.pool.node_capacity import NodeCapacity, NodeProfile
from potluck.model.task import Requirements


class PlacementChoice(Struct, gc=False):
    """Devices of a node for a task.

    Devices are identified by position: `capacity.milli[usable.position]` is the free share of the
    device that a `usable` of `taken` would use.
    """

    demand: Demand
    capacity: NodeCapacity
    taken: tuple[Usable, ...]


class Placement(ABC):
    # How many nodes it scores, the first that fit in the fixed order; None: all of them.
    looks_at: int | None = None
    tolerance: float = 0.0
    # Scores of different epochs are not compared.
    epoch: int = 0
    # Whether `prepare` should be called again.
    is_due: bool = False

    @abstractmethod
    def score(self, choice: PlacementChoice) -> float:
        """The cost of the choice; the lowest wins."""

    def learn(self, requirements: Requirements, count: int) -> None:  # noqa: B027
        """`count` more tasks with these requirements have arrived."""

    def prepare(self, profiles: Sequence[NodeProfile]) -> None:  # noqa: B027
        """Passes the current nodes; called before the first score, and after large changes."""
