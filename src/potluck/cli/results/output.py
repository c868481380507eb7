"""Writes a task's output to the same streams that the task wrote to, byte for byte.

The platform's own remarks go to stderr, faint, so that they cannot be mistaken for the task's.
"""

from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.wire.consumer import LogPage, LogPiece


class TaskOutput:
    """Shows log pages, and tracks whether the cursor is at the start of a line."""

    def __init__(self, screen: Screen):
        self._screen = screen
        self._attempt_id: str | None = None
        self.at_line_start = True

    def show(self, page: LogPage) -> None:
        if page.pieces and page.attempt_id != self._attempt_id:
            self._begin_attempt(page.attempt_id)
        for piece in page.pieces:
            if self._screen.json:
                self._emit(page, piece)
            else:
                self._write(piece)

    def finish_line(self) -> None:
        """In a terminal, keeps the next message from continuing the task's last line."""
        if not self.at_line_start and self._screen.err.is_terminal:
            self._screen.err.line()
            self.at_line_start = True

    def _begin_attempt(self, attempt_id: str | None) -> None:
        if self._attempt_id is not None and not self._screen.json:
            self.finish_line()
            self._screen.err.line("potluck: the task starts again, in a new attempt", Tone.FAINT)
        self._attempt_id = attempt_id

    def _emit(self, page: LogPage, piece: LogPiece) -> None:
        self._screen.emit(
            {
                "event": "log",
                "attempt_id": page.attempt_id,
                "stream": piece.stream,
                "text": piece.text,
            }
        )

    def _write(self, piece: LogPiece) -> None:
        if piece.stream == "potluck":
            self.finish_line()
            for line in piece.text.splitlines():
                self._screen.err.line(f"potluck: {printable(line)}", Tone.FAINT)
            return
        self._pane(piece.stream).write_bytes(piece.data)
        if piece.data:
            self.at_line_start = piece.data.endswith(b"\n")

    def _pane(self, stream: str) -> Pane:
        return self._screen.out if stream == "stdout" else self._screen.err
