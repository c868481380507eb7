"""The order policies. With aging, waiting raises the priority of a task, so that none starves."""

from potluck.decide.order.interface import Turn
from potluck.decide.reservations.duration_estimate import work_seconds
from potluck.decide.types import WaitingTask


class Shortest:
    promises = True

    def within(self, task: WaitingTask) -> float:
        return work_seconds(task)

    def between(self, turn: Turn) -> float:
        return work_seconds(turn.task)


class RoundRobin:
    promises = False

    def within(self, task: WaitingTask) -> float:
        return task.submitted_at

    def between(self, turn: Turn) -> float:
        """The account whose last turn is longest ago."""
        return turn.account.turn


class Fcfs:
    promises = False

    def within(self, task: WaitingTask) -> float:
        return task.submitted_at

    def between(self, turn: Turn) -> float:
        return turn.task.submitted_at


# Waiting this long is worth one step of priority.
STEP_SECONDS = 300.0


def aged_submission(task: WaitingTask) -> float:
    """Orders a task as if it had been submitted earlier by one step for each of its priority.

    This equals a priority that grows by one at each step, but is computed only once.
    """
    return task.submitted_at - STEP_SECONDS * task.priority


class Priority:
    promises = False

    def within(self, task: WaitingTask) -> float:
        return aged_submission(task)

    def between(self, turn: Turn) -> float:
        return aged_submission(turn.task)


class Fair:
    promises = False

    def within(self, task: WaitingTask) -> float:
        return aged_submission(task)

    def between(self, turn: Turn) -> tuple[float, ...]:
        task, account = turn.task, turn.account
        steps = account.waited_seconds(task.submitted_at, turn.now) // STEP_SECONDS
        return (-task.priority - steps, account.use(turn.now), task.submitted_at)
