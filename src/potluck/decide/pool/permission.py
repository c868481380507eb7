"""Which nodes a task may use for reasons that lie outside the pool, such as reservations."""

from collections.abc import Sequence

from potluck.model.ids import NodeId


class NodePermission:
    """Answers node by node, and says for which nodes it need not be asked.

    It is no abstract class, because each search asks whether it has one. With equal stamps, tasks
    with equal requirements and equal ends get the same answers, except on nodes that have changed.
    """

    __slots__ = ("changes", "end", "is_of_one_task", "limited", "stamp")

    limited: frozenset[NodeId]  # the task may use all nodes but some of these
    end: float  # when the task would end
    stamp: object
    changes: int  # how many there were so far
    is_of_one_task: bool  # whether other tasks may get other answers

    def __call__(self, node_id: NodeId) -> bool:
        """Whether the task may use the node."""
        raise NotImplementedError

    def changed_since(self, changes: int) -> Sequence[NodeId]:
        """The nodes with all later changes."""
        raise NotImplementedError
