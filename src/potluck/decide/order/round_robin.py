"""Accounts take turns, whatever their tasks are; each account's own come in turn of age."""

from potluck.decide.order.interface import Turn
from potluck.decide.types import WaitingTask


class RoundRobin:
    promises = False

    def within(self, task: WaitingTask) -> float:
        return task.submitted_at

    def between(self, turn: Turn) -> float:
        """Whose last turn is longest ago."""
        return turn.account.turn
