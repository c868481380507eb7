"""The interface of order policies, which decide the order in which tasks are served.

`within` orders the tasks of one account, and `between` orders accounts by their first task. The
smallest value comes first, then the oldest task. `within` is called once per task, when it enters
the queue, and must not change; `between` is called repeatedly, so it may depend on the time and on
the account's use.
"""

from typing import Protocol

from msgspec import Struct

from potluck.decide.account import SchedulerAccount
from potluck.decide.types import WaitingTask

Place = float | tuple[float, ...]


class Turn(Struct):
    """An account whose turn it may be, with its first task."""

    task: WaitingTask
    account: SchedulerAccount
    now: float


class OrderPolicy(Protocol):
    # Whether reservations go to the tasks that have waited longest, because the order itself would
    # let them wait for ever. Otherwise they go to the first tasks in the order.
    promises: bool

    def within(self, task: WaitingTask) -> float:
        """The position of a task within its account."""

    def between(self, turn: Turn) -> Place:
        """The position of an account among the others."""
