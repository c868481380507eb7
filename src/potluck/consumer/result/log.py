"""What an attempt wrote, read page by page as far as somebody reads."""

from collections.abc import Iterator

from potluck.consumer.tasks import Tasks
from potluck.model.error import NotFound
from potluck.wire.consumer import LogPage, LogPiece


class Log:
    """Of one attempt: iterate its pieces, or take a whole stream of it as text."""

    def __init__(self, tasks: Tasks, task_id: str, attempt: int | None):
        self._tasks = tasks
        self._task_id = task_id
        self._attempt = attempt  # none has begun
        self._kept: list[LogPiece] | None = None
        self._is_cleared = False

    def __iter__(self) -> Iterator[LogPiece]:
        """What there is now, in the order in which it was written."""
        if self._kept is not None:
            yield from self._kept
            return
        read: list[LogPiece] = []
        for page in self._pages():
            read += page.pieces
            yield from page.pieces
            if page.complete:  # it will not change any more
                self._kept = read

    @property
    def stdout(self) -> str:
        return self._text("stdout")

    @property
    def stderr(self) -> str:
        return self._text("stderr")

    @property
    def remarks(self) -> str:
        """Of the platform: what it installed, why something was not taken."""
        return self._text("potluck")

    @property
    def text(self) -> str:
        """All streams as they were mixed."""
        return self._text("stdout", "stderr", "potluck")

    @property
    def cleared(self) -> bool:
        """Whether there may have been something that is kept no longer."""
        for _ in self:
            break
        return self._is_cleared

    def read_bytes(self, stream: str = "stdout") -> bytes:
        """Exactly what it wrote."""
        data = b"".join(piece.data for piece in self if piece.stream == stream)
        if not data and self._is_cleared:
            raise NotFound(
                f"What {self._task_id} wrote is no longer kept.",
                "Logs go with the results, a while after the end: see `kept_until`.",
            )
        return data

    def _text(self, *streams: str) -> str:
        if len(streams) == 1:
            return self.read_bytes(streams[0]).decode("utf-8", "replace")
        return b"".join(piece.data for piece in self).decode("utf-8", "replace")

    def _pages(self) -> Iterator[LogPage]:
        offset, is_last = 0, self._attempt is None
        while not is_last:
            page = self._tasks.logs(self._task_id, self._attempt, offset)
            self._is_cleared = page.cleared
            yield page
            is_last = page.next_offset <= offset or page.complete
            offset = page.next_offset
