"""The log of an attempt, fetched page by page as it is read."""

from collections.abc import Iterator

from potluck.consumer.tasks import Tasks
from potluck.model.error import NotFound
from potluck.wire.consumer import LogPage, LogPiece


class Log:
    """The log of one attempt: iterate its pieces, or read a stream as text."""

    def __init__(self, tasks: Tasks, task_id: str, attempt: int | None):
        self._tasks = tasks
        self._task_id = task_id
        self._attempt = attempt  # None: no attempt has started
        self._kept: list[LogPiece] | None = None
        self._is_cleared = False

    def __iter__(self) -> Iterator[LogPiece]:
        """The present pieces, in the order in which they were written."""
        if self._kept is not None:
            yield from self._kept
            return
        read: list[LogPiece] = []
        for page in self._pages():
            read += page.pieces
            yield from page.pieces
            if page.complete:  # it does not change any more
                self._kept = read

    @property
    def stdout(self) -> str:
        return self._text("stdout")

    @property
    def stderr(self) -> str:
        return self._text("stderr")

    @property
    def remarks(self) -> str:
        """The platform's own messages, such as the output of installations."""
        return self._text("potluck")

    @property
    def text(self) -> str:
        """All streams, interleaved."""
        return self._text("stdout", "stderr", "potluck")

    @property
    def cleared(self) -> bool:
        """Whether there may have been a log that is no longer kept."""
        for _ in self:
            break
        return self._is_cleared

    def read_bytes(self, stream: str = "stdout") -> bytes:
        """The exact bytes of a stream."""
        data = b"".join(piece.data for piece in self if piece.stream == stream)
        if not data and self._is_cleared:
            raise NotFound(
                f"The log of {self._task_id} is no longer kept.",
                "Logs are deleted with the results, a while after the end: see `kept_until`.",
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
