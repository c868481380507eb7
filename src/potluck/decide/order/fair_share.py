"""Priority class, then weighted fair share between accounts, then age.

An account that gets nothing rises by a class at each step, so that high priorities of others do
not starve it. What counts is how long the account got nothing and not how old its task is: one that
has queued thousands of tasks is not put first for their age.
"""

from potluck.decide.order.aging import STEP_SECONDS, aged
from potluck.decide.order.interface import Turn
from potluck.decide.types import WaitingTask


class Fair:
    promises = False

    def within(self, task: WaitingTask) -> float:
        return aged(task)

    def between(self, turn: Turn) -> tuple[float, ...]:
        task, account = turn.task, turn.account
        steps = account.waited_seconds(task.submitted_at, turn.now) // STEP_SECONDS
        return (-task.priority - steps, account.use(turn.now), task.submitted_at)
