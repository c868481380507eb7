"""What one attempt wrote, as it grows."""

from typing import TYPE_CHECKING

from potluck.cli.tasks.task_text import last_attempt
from potluck.cli.top.details import Lines, log_lines
from potluck.model.ids import TaskId
from potluck.wire.consumer import LogPage

if TYPE_CHECKING:
    from potluck.consumer import Potluck

_MOST_PAGES = 50  # as much as anybody reads


class Written:
    """The log of the attempt that was the newest when it was first asked for.

    Asked for again, only what is new is fetched. One thread at a time asks.
    """

    def __init__(self, potluck: "Potluck", task_id: TaskId):
        self._potluck = potluck
        self._task_id = task_id
        self._attempt: int | None = None
        self._offset = 0
        self._pages: list[LogPage] = []

    def lines(self) -> Lines:
        # Named in every call: another attempt's pieces would be counted anew.
        if self._attempt is None:
            newest = last_attempt(self._potluck.tasks.get(self._task_id))
            self._attempt = None if newest is None else newest.number
        while self._attempt is not None and self._read_page(self._attempt):
            pass
        return log_lines(self._pages)

    def _read_page(self, attempt: int) -> bool:
        """Whether there was anything new."""
        page = self._potluck.tasks.logs(self._task_id, attempt, self._offset)
        if page.next_offset <= self._offset:
            return False
        self._pages = [*self._pages, page][-_MOST_PAGES:]
        self._offset = page.next_offset
        return True
