"""First come, first served."""

from potluck.decide.order.interface import Turn
from potluck.decide.types import WaitingTask


class Fcfs:
    promises = False

    def within(self, task: WaitingTask) -> float:
        return task.submitted_at

    def between(self, turn: Turn) -> float:
        return turn.task.submitted_at
