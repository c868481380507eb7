"""What `potluck top` shows: one look at the account, its tasks and the pool.

A look is two requests, for the tasks that are not over and for the devices; what has not changed is
not sent again. What changes seldom (what is over, the balance, the pool in numbers) is asked for
every few looks, and whenever a task of ours has come, begun or ended since the last.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from potluck.model.ids import TaskId
from potluck.model.task import TaskState
from potluck.wire.consumer import PoolDevice, PoolView, TaskView
from potluck.wire.identity import Me

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_OPEN = tuple(state for state in TaskState if not state.is_final)
_OVER = tuple(state for state in TaskState if state.is_final)
_MOST_OPEN = 200
_MOST_OVER = 50
_MOST_DEVICES = 200
_SELDOM = 5  # looks


class TopSnapshot(Struct, frozen=True):
    """All of one moment, more or less."""

    at: datetime
    url: str
    me: Me
    pool: PoolView
    tasks: list[TaskView]  # those that are not over, then those that are; each newest first
    devices: list[PoolDevice]
    has_more_tasks: bool  # that are not over
    has_more_devices: bool


class Looker:
    """Looks again and again, and asks for no more than it needs."""

    def __init__(self, potluck: "Potluck"):
        self._potluck = potluck
        potluck.transport.remember()
        self._looks = 0
        self._open: set[tuple[TaskId, TaskState]] = set()
        self._seldom: tuple[Me, PoolView, list[TaskView]] | None = None

    def look(self) -> TopSnapshot:
        potluck = self._potluck
        open_page = potluck.tasks.list(_MOST_OPEN, None, _OPEN)
        device_page = potluck.resources.devices(limit=_MOST_DEVICES)
        ids = {task.id for task in open_page.tasks}
        states = {(task.id, task.state) for task in open_page.tasks}
        me, pool, over = self._what_changes_seldom(states != self._open)
        self._open = states
        self._looks += 1
        return TopSnapshot(
            at=datetime.now(UTC),
            url=potluck.url,
            me=me,
            pool=pool,
            tasks=open_page.tasks + [task for task in over if task.id not in ids],
            devices=device_page.devices,
            has_more_tasks=open_page.next_cursor is not None,
            has_more_devices=device_page.next_cursor is not None,
        )

    def _what_changes_seldom(self, is_news: bool) -> tuple[Me, PoolView, list[TaskView]]:
        if self._seldom is None or is_news or self._looks % _SELDOM == 0:
            over = self._potluck.tasks.list(_MOST_OVER, None, _OVER).tasks
            self._seldom = (self._potluck.account.me(), self._potluck.resources.pool(), over)
        return self._seldom
