"""Restores recent usage per account, from the attempts of the last day.

Without it fair share would restart with each leader. It is read last, in slices, newest first,
since old usage counts least: after a day it counts a sixteenth, and older attempts matter only if
they ran into this day.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import NamedTuple

from potluck.decide.account import decayed_use
from potluck.model.ids import AccountId, first_id_at
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.scheduler import recent_usage
from potluck.store.scheduler.recent_usage import RecentUse

_WINDOW = timedelta(days=1)
# Bounds the work to a few seconds of reading, between rounds.
_MAX_ATTEMPTS = 200_000
_AFTER_ALL = "attempt_z"


class _IdSpan(NamedTuple):
    """Read in slices, each before an id."""

    read: Callable[[Connection, str, int], Awaitable[list[RecentUse]]]
    behind: str


class UsageBackfill:
    def __init__(self, services: Services, memory: LeaderMemory) -> None:
        self._services = services
        self._memory = memory
        self._until = memory.now  # from then on the scheduler counts itself
        self._since = datetime.fromtimestamp(memory.now, UTC) - _WINDOW
        self._first = first_id_at("attempt", self._since)
        # Attempts that ran into this day come first: few rows, and they count for much.
        self._spans = [
            _IdSpan(self._before_the_day, self._first),
            _IdSpan(self._of_the_day, _AFTER_ALL),
        ]
        self._left = _MAX_ATTEMPTS
        self.is_over = False

    async def run_once(self) -> None:
        """Reads the next slice."""
        span = self._spans[0]
        most = min(self._left, self._services.settings.most_tasks_per_page)
        async with self._services.database.transaction() as connection:
            page = await span.read(connection, span.behind, most)
        await self._memory.planner(partial(self._recall, self._by_account(page)))
        self._left -= len(page)
        if len(page) < most:
            self._spans.pop(0)
        else:
            self._spans[0] = span._replace(behind=page[-1].attempt_id)
        self.is_over = not self._spans or not self._left

    def _recall(self, used_by_account: dict[AccountId, float]) -> None:
        for account_id, used in used_by_account.items():
            self._memory.known.scheduler.recall(account_id, used, self._until)

    async def _before_the_day(
        self, connection: Connection, behind: str, most: int
    ) -> list[RecentUse]:
        return await recent_usage.long_uses(connection, self._since, behind, most)

    async def _of_the_day(self, connection: Connection, behind: str, most: int) -> list[RecentUse]:
        return await recent_usage.uses(connection, self._first, behind, most)

    def _by_account(self, page: list[RecentUse]) -> dict[AccountId, float]:
        used: dict[AccountId, float] = defaultdict(float)
        for use in page:
            ended_at = self._until if use.ended_at is None else min(use.ended_at, self._until)
            used[use.account_id] += decayed_use(use.milli, use.began_at, ended_at, self._until)
        return used
