"""The data that `potluck top` shows: the account, its tasks and the pool.

A snapshot takes two requests, for unfinished tasks and for devices; unchanged responses are not
sent again. Finished tasks, the balance and the pool's totals change rarely: they are requested
every few snapshots, and when one of our tasks has arrived, started or finished since the last.
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
_SLOW_INTERVAL = 5  # snapshots


class TopSnapshot(Struct, frozen=True):
    at: datetime
    url: str
    me: Me
    pool: PoolView
    tasks: list[TaskView]  # unfinished ones, then finished ones, each newest first
    devices: list[PoolDevice]
    has_more_tasks: bool  # unfinished ones
    has_more_devices: bool


class SnapshotReader:
    def __init__(self, potluck: "Potluck"):
        self._potluck = potluck
        potluck.transport.remember()
        self._reads = 0
        self._open: set[tuple[TaskId, TaskState]] = set()
        self._slow_parts: tuple[Me, PoolView, list[TaskView]] | None = None

    def read(self) -> TopSnapshot:
        potluck = self._potluck
        open_page = potluck.tasks.list(_MOST_OPEN, None, _OPEN)
        device_page = potluck.resources.devices(limit=_MOST_DEVICES)
        ids = {task.id for task in open_page.tasks}
        states = {(task.id, task.state) for task in open_page.tasks}
        me, pool, finished = self._read_slow_parts(states != self._open)
        self._open = states
        self._reads += 1
        return TopSnapshot(
            at=datetime.now(UTC),
            url=potluck.url,
            me=me,
            pool=pool,
            tasks=open_page.tasks + [task for task in finished if task.id not in ids],
            devices=device_page.devices,
            has_more_tasks=open_page.next_cursor is not None,
            has_more_devices=device_page.next_cursor is not None,
        )

    def _read_slow_parts(self, has_changed: bool) -> tuple[Me, PoolView, list[TaskView]]:
        if self._slow_parts is None or has_changed or self._reads % _SLOW_INTERVAL == 0:
            finished = self._potluck.tasks.list(_MOST_OVER, None, _OVER).tasks
            self._slow_parts = (
                self._potluck.account.me(),
                self._potluck.resources.pool(),
                finished,
            )
        return self._slow_parts
