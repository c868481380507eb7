"""The least work first, as declared, learned or, where nobody knows, as its limit allows.

Work is time × devices: what must be done before somebody else can have these devices. A stream of
short tasks would keep a long one waiting for ever, so this order promises: what has waited long
gets a reservation (decide/reservations/reserve.py).
"""

from potluck.decide.order.interface import Turn
from potluck.decide.reservations.duration_estimate import work_seconds
from potluck.decide.types import WaitingTask


class Shortest:
    promises = True

    def within(self, task: WaitingTask) -> float:
        return work_seconds(task)

    def between(self, turn: Turn) -> float:
        return work_seconds(turn.task)
