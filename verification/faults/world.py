"""The state of one history: its database, its live values, its time, and its violations."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from potluck.model.error import PotluckError, Unavailable
from potluck.store.database import unavailable
from verification.faults.chance import Chance
from verification.faults.cluster import BEGINNING
from verification.faults.history_plan import HistoryPlan, has_large_tasks
from verification.faults.invariant_check import find_violations
from verification.faults.lossy_live import LossyLive
from verification.faults.owner_invariants import AvailabilityHistory, find_owner_violations
from verification.faults.row_changes import take_row_changes
from verification.faults.sessions import Sessions

T = TypeVar("T")


class World:
    """Counts steps: a step is a transaction, after which the invariants are checked."""

    def __init__(
        self,
        sessions: Sessions,
        seed: int,
        plan: HistoryPlan,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.plan = plan
        self.has_large_tasks = has_large_tasks(seed)
        self.most_devices = 1  # of one kind on any node; no task requests more
        self.chance = Chance(seed)
        self.sessions = sessions
        sessions.reset(self.chance)
        self.live = LossyLive(lambda: self.now, lambda: self.chance.strikes("wake_lost"))
        self.steps = 0
        self._availability = AvailabilityHistory()
        self.addresses: list[str] = []  # of all accounts
        self.broken: list[str] = []
        self.over = asyncio.Event()  # all steps with faults are done, or there was a violation
        self.is_repaired = False
        self.slowness: float | None = None  # of all providers; each has its own while this is None
        self._ahead = timedelta()
        self._trace = trace

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def database_time(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.now) + self._ahead

    def trace(self, sentence: str) -> None:
        if self._trace is not None:
            self._trace(f"{self.steps:6} {self.now:9.3f}  {sentence}")

    def jump(self, seconds: float) -> None:
        """Moves the database's clock forward; it never goes back."""
        self._ahead += timedelta(seconds=seconds)

    async def turn(self) -> None:
        """Before each transaction: chance decides the order; the database may be unreachable."""
        slow = self.chance.strikes("slow")
        await asyncio.sleep(self.chance.seconds(0.0, 0.5 if slow else 0.02))
        if self.chance.strikes("database_away"):
            raise unavailable()

    def done(self, begun_at: int) -> None:
        """After each transaction; `begun_at` is the step at which it began."""
        self.steps += 1
        changes = take_row_changes(self.sessions)
        self._availability.note(changes, self.steps)
        racing = self._availability.changed_since(begun_at)
        self.fail(find_violations(self.sessions, changes))
        self.fail(find_owner_violations(self.sessions, changes, racing))
        if self.steps >= self.plan.steps:
            self.over.set()
        if self.chance.strikes("commit_unheard"):
            raise unavailable()

    def fail(self, sentences: list[str]) -> None:
        for sentence in sentences:
            self.trace(f"BROKEN: {sentence}")
            self.broken.append(f"step {self.steps}: {sentence}")
            self.over.set()

    def watch(self, task: "asyncio.Task[Any]") -> None:
        """An exception that is not a PotluckError fails the history."""
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        raised = None if task.cancelled() else task.exception()
        if raised is not None and not isinstance(raised, PotluckError):
            self.trace("".join(traceback.format_exception(raised)))
            self.fail([f"something raised {raised!r}"])

    async def persist(self, act: Callable[[], Awaitable[T]]) -> T:
        """Retries like a client until it succeeds."""
        while True:
            try:
                return await act()
            except Unavailable:
                await asyncio.sleep(self.chance.seconds(0.05, 0.5))
