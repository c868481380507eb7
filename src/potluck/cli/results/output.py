"""Writes a task's output to the same streams that the task wrote to.

A file or a pipe gets it byte for byte. A terminal does not obey it, since another person's node
may have written it, unless the user wants that (--raw). The platform's own remarks go to stderr,
faint, so that they cannot be mistaken for the task's.
"""

from potluck.cli.terminal.screen import Pane, Screen, Tone, printable
from potluck.local.terminal_filter import TerminalFilter, WrittenLines
from potluck.wire.consumer import LogPage, LogPiece


class OutputWriter:
    """Writes one stream of a task to a pane."""

    def __init__(self, pane: Pane, is_raw: bool, lines: WrittenLines | None = None):
        self._pane = pane
        self._filter = TerminalFilter(lines) if pane.is_terminal and not is_raw else None

    def write(self, data: bytes) -> None:
        if self._filter is None:
            self._pane.write_bytes(data)
        else:
            self._pane.write_filtered(self._filter.feed(data))

    def finish(self) -> None:
        """Ends an incomplete sequence and all colours."""
        if self._filter is not None and (rest := self._filter.finish()):
            self._pane.write_filtered(rest)


def write_stdout(screen: Screen, data: bytes) -> None:
    """Writes the whole stdout of a task."""
    writer = OutputWriter(screen.out, screen.is_raw)
    writer.write(data)
    writer.finish()


class TaskOutput:
    """Shows log pages, and tracks whether the cursor is at the start of a line."""

    def __init__(self, screen: Screen):
        self._screen = screen
        self._attempt_id: str | None = None
        self._lines = WrittenLines()
        self._writers = {
            stream: OutputWriter(pane, screen.is_raw, self._lines)
            for stream, pane in (("stdout", screen.out), ("stderr", screen.err))
        }
        self.at_line_start = True

    def show(self, page: LogPage) -> None:
        if page.pieces and page.attempt_id != self._attempt_id:
            self._begin_attempt(page.attempt_id)
        for piece in page.pieces:
            if self._screen.json:
                self._emit(page, piece)
            else:
                self._write(piece)

    def end(self) -> None:
        """Keeps the task's colours, and a sequence that it did not complete, to itself."""
        for writer in self._writers.values():
            writer.finish()

    def finish_line(self) -> None:
        """In a terminal, keeps the next message from continuing the task's last line, and the task
        from writing over it."""
        self.end()
        self._lines.begin()
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
        self._writers["stdout" if piece.stream == "stdout" else "stderr"].write(piece.data)
        if piece.data:
            self.at_line_start = piece.data.endswith(b"\n")
