"""The higher priority first, and age counts too, so that nothing starves."""

from potluck.decide.order.aging import aged
from potluck.decide.order.interface import Turn
from potluck.decide.types import WaitingTask


class Priority:
    promises = False

    def within(self, task: WaitingTask) -> float:
        return aged(task)

    def between(self, turn: Turn) -> float:
        return aged(turn.task)
