"""The nodes that tasks with equal requirements may use, kept as bitmaps of slots."""

from msgspec import Struct

from potluck.decide.pool.bitmap_index import slots_of
from potluck.decide.pool.node_index import NodeIndex
from potluck.decide.pool.permission import NodePermission


class _NodeAnswers(Struct):
    checked: int = 0  # the slots of the nodes that were asked
    refused: int = 0  # of these, the ones that refuse
    changes: int = 0  # how many changes of the permission they contain


class PermittedNodes:
    """Asks only nodes that may refuse, each once until something has changed there."""

    __slots__ = ("_answers", "_stamp")

    def __init__(self) -> None:
        self._stamp: object = None
        self._answers: dict[float, _NodeAnswers] = {}  # by the end of the tasks

    def among(self, slots: int, pool: NodeIndex, permission: NodePermission) -> int:
        limited = slots & pool.slots_of(permission.limited)
        if not limited:
            return slots
        answers = self._answers_to(permission, pool)
        unknown = limited & ~answers.checked
        if unknown:
            by_slot = pool.by_slot
            refused = 0
            for slot in slots_of(unknown):
                capacity = by_slot[slot]
                assert capacity is not None
                if not permission(capacity.node.id):
                    refused |= 1 << slot
            answers.refused |= refused
            answers.checked |= unknown
        return slots & ~answers.refused

    def _answers_to(self, permission: NodePermission, pool: NodeIndex) -> _NodeAnswers:
        if permission.is_of_one_task:
            return _NodeAnswers()
        stamp = (permission.stamp, pool.layout)
        if self._stamp != stamp:
            self._stamp = stamp
            self._answers.clear()
        answers = self._answers.get(permission.end)
        if answers is None:
            answers = self._answers[permission.end] = _NodeAnswers(0, 0, permission.changes)
        elif answers.changes != permission.changes:
            _forget_changed(answers, pool, permission)
        return answers


def _forget_changed(answers: _NodeAnswers, pool: NodeIndex, permission: NodePermission) -> None:
    for node_id in permission.changed_since(answers.changes):
        capacity = pool.get(node_id)
        if capacity is not None:
            bit = 1 << capacity.slot
            answers.checked &= ~bit
            answers.refused &= ~bit
    answers.changes = permission.changes
