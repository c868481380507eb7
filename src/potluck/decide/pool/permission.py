"""Which nodes a task may use for reasons that lie outside the pool, such as reservations."""

from abc import ABC, abstractmethod

from potluck.model.ids import NodeId


class NodePermission(ABC):
    """Answers node by node, and says for which nodes it need not be asked."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, node_id: NodeId) -> bool:
        """Whether the task may use the node."""

    @property
    @abstractmethod
    def limited(self) -> frozenset[NodeId]:
        """The task may use all nodes but some of these."""

    @property
    @abstractmethod
    def stamp(self) -> object:
        """As long as it is equal, tasks with equal requirements get the same answers."""
