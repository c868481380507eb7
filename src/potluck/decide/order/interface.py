"""Who is served first: what an order policy has to say.

An account's tasks stand among themselves by `within`, and accounts among each other by what
`between` makes of their first task. In both the least comes first, and equals by age. `within` is
asked once for each task, when it comes into line, and must not change; `between` is asked again and
again, so it may look at the time and at what the account has had.
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
    # Whether tasks that have waited long get reservations before all others, because the order
    # itself would let them wait for ever. Otherwise who is first in the order gets them.
    promises: bool

    def within(self, task: WaitingTask) -> float:
        """Its place among the tasks of its account."""

    def between(self, turn: Turn) -> Place:
        """The place of an account among the others."""
