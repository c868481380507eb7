"""A table widget with a selected row.

It draws only the rows and columns that fit into the terminal.
"""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget

from potluck.cli.terminal.screen import printable
from potluck.cli.terminal.table import (
    GAP,
    RICH_STYLES,
    Cell,
    Columns,
    column_widths,
    drop_empty_columns,
    fit_columns,
    pad,
    truncate,
)
from potluck.cli.top.text import TextRow

_ABOVE = 2  # the title and the column names


class Rows(Widget, can_focus=True):
    """Keeps the selection on the same row when other rows come and go."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,g", "move(-100000)", show=False),
        Binding("end,G", "move(100000)", show=False),
    ]

    def __init__(self, columns: Columns, name: str):
        super().__init__(id=name)
        self._columns = columns
        self._empty = ""
        self._title = ""
        self._rows: Sequence[TextRow] = ()
        self._key: str | None = None
        self._at = 0  # index of the selected row
        self._first = 0  # index of the first visible row

    def show(self, title: str, rows: Sequence[TextRow], empty: str) -> None:
        """Shows the rows, or the `empty` text if there are none."""
        self._title, self._rows, self._empty = title, rows, empty
        keys = [row.key for row in rows]
        if self._key in keys:
            self._at = keys.index(self._key)
        self._choose(self._at)

    @property
    def chosen(self) -> str | None:
        return self._key

    @property
    def wanted_lines(self) -> int:
        return _ABOVE + max(1, len(self._rows))

    def action_move(self, by: int) -> None:
        self._choose(self._at + by)

    def action_page(self, by: int) -> None:
        self._choose(self._at + by * max(1, self._room - 1))

    @property
    def _room(self) -> int:
        return max(1, self.size.height - _ABOVE)

    def _choose(self, at: int) -> None:
        self._at = max(0, min(at, len(self._rows) - 1))
        self._key = self._rows[self._at].key if self._rows else None
        self.refresh()

    def render(self) -> Text:
        width = self.size.width
        self._scroll()
        shown = self._rows[self._first : self._first + self._room]
        lines = [self._name_line(len(shown), width)]
        if not self._rows:
            return Text("\n").join([*lines, Text(truncate(self._empty, width), "dim")])
        columns, rows = drop_empty_columns(self._columns, [row.cells for row in self._rows])
        columns, rows = fit_columns(
            columns, [[_plain(cell) for cell in row] for row in rows], width
        )
        sizes = column_widths(columns, rows, width)
        lines.append(
            _line([Cell(column.title) for column in columns], columns, sizes, width, "bold")
        )
        for index, row in enumerate(rows[self._first : self._first + len(shown)], self._first):
            is_chosen = self.has_focus and index == self._at
            lines.append(_line(row, columns, sizes, width, "reverse" if is_chosen else ""))
        return Text("\n").join(lines)

    def _scroll(self) -> None:
        """Scrolls just enough to show the selected row, without empty lines at the end."""
        self._first = min(self._first, self._at, max(0, len(self._rows) - self._room))
        self._first = max(self._first, self._at - self._room + 1)

    def _name_line(self, shown: int, width: int) -> Text:
        total = len(self._rows)
        part = f" {self._first + 1}-{self._first + shown} of {total}" if shown < total else ""
        style = "bold underline" if self.has_focus else "underline"
        return Text(pad(truncate(self._title + part, width), width), style)


def _plain(cell: Cell) -> Cell:
    return Cell(printable(cell.text), cell.tone)


def _line(
    cells: Sequence[Cell], columns: Columns, sizes: Sequence[int], width: int, style: str
) -> Text:
    """One line, padded to the width of the screen."""
    line = Text(style=style)
    for cell, column, size in zip(cells, columns, sizes, strict=True):
        text = pad(truncate(cell.text, size), size, column.is_number)
        # A selected row is reversed; colours would make it patchy.
        line.append(text, "" if style else RICH_STYLES[cell.tone]).append(" " * GAP)
    line.truncate(width)
    line.append(" " * (width - line.cell_len))
    return line
