"""What accounts had of the pool before this leader began to count, from the attempts of a day.

Without it fair share would begin anew with each leader: who has just used the pool for hours would
be as good as who has not. It is read behind all else, a slice at a time and the newest first, since
what was used longest ago counts least; a day ago counts a sixteenth, and further back nobody looks
but for what ran from before then into this day.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from potluck.decide.account import lately_used
from potluck.model.ids import AccountId, first_id_at
from potluck.server.leader.memory import LeaderMemory
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.scheduler import recent_usage
from potluck.store.scheduler.recent_usage import RecentUse

_BACK = timedelta(days=1)
# However busy the day was: these are a few seconds of reading, between rounds.
_MOST_ATTEMPTS = 200_000
_BEHIND_ALL = "attempt_z"


class _IdSpan(NamedTuple):
    """What is read slice by slice, each before an id."""

    read: Callable[[Connection, str, int], Awaitable[list[RecentUse]]]
    behind: str


class UsageBackfill:
    def __init__(self, services: Services, memory: LeaderMemory) -> None:
        self._services = services
        self._memory = memory
        self._until = memory.now  # from here on the scheduler counts by itself
        self._since = datetime.fromtimestamp(memory.now, UTC) - _BACK
        self._first = first_id_at("attempt", self._since)
        # What ran into this day goes first: it is little to read, and counts for much.
        self._spans = [
            _IdSpan(self._before_the_day, self._first),
            _IdSpan(self._of_the_day, _BEHIND_ALL),
        ]
        self._left = _MOST_ATTEMPTS
        self.is_over = False

    async def run_once(self) -> None:
        """The next slice."""
        span = self._spans[0]
        most = min(self._left, self._services.settings.most_tasks_per_page)
        async with self._services.database.transaction() as connection:
            page = await span.read(connection, span.behind, most)
        for account_id, used in self._by_account(page).items():
            self._memory.known.scheduler.recall(account_id, used, self._until)
        self._left -= len(page)
        if len(page) < most:
            self._spans.pop(0)
        else:
            self._spans[0] = span._replace(behind=page[-1].attempt_id)
        self.is_over = not self._spans or not self._left

    async def _before_the_day(
        self, connection: Connection, behind: str, most: int
    ) -> list[RecentUse]:
        return await recent_usage.long_uses(connection, self._since, behind, most)

    async def _of_the_day(self, connection: Connection, behind: str, most: int) -> list[RecentUse]:
        return await recent_usage.uses(connection, self._first, behind, most)

    def _by_account(self, page: list[RecentUse]) -> dict[AccountId, float]:
        used: dict[AccountId, float] = defaultdict(float)
        for each in page:
            ended_at = self._until if each.ended_at is None else min(each.ended_at, self._until)
            used[each.account_id] += lately_used(each.milli, each.began_at, ended_at, self._until)
        return used
