"""Rows for people: drawn by rich in a terminal, plain aligned columns in a pipe."""

from collections.abc import Sequence
from itertools import compress
from typing import Literal

from msgspec import Struct

from potluck.cli.terminal.screen import (
    COLOURS,
    Pane,
    Tone,
    printable,
)
from potluck.cli.terminal.text_width import padded, width

RICH_STYLES = {
    **{tone: f"color({number})" for tone, number in COLOURS.items()},
    Tone.BAD: f"bold color({COLOURS[Tone.BAD]})",
    Tone.STRONG: "bold",
    Tone.PLAIN: "",
}


GAP = 2
_LEAST_WIDTH = 6


class Cell(Struct, frozen=True):
    text: str
    tone: Tone = Tone.PLAIN


class TableColumn(Struct, frozen=True):
    title: str
    is_number: bool = False
    shrinks: bool = False  # gives way when the terminal is narrow
    wraps: bool = False  # and then goes on in the next line, instead of being cut
    from_width: int = 0  # of a terminal that is narrower, it is left out


Columns = Sequence[TableColumn]
Rows = Sequence[Sequence[Cell]]


def show_table(pane: Pane, columns: Columns, rows: Rows) -> None:
    """A terminal that is too narrow for all of it has the columns that matter."""
    if pane.is_terminal:
        _show_rich(pane, *fitting(columns, rows, pane.width))
    else:
        _show_plain(pane, columns, rows)


def fitting(columns: Columns, rows: Rows, room: int) -> tuple[Columns, Rows]:
    """The columns that a terminal of this width has room for."""
    return _kept(columns, rows, [each.from_width <= room for each in columns])


def filled(columns: Columns, rows: Rows) -> tuple[Columns, Rows]:
    """Without the columns in which nobody has anything to say."""
    return _kept(
        columns, rows, [any(each.text for each in cells) for cells in zip(*rows, strict=True)]
    )


def _kept(columns: Columns, rows: Rows, are_wanted: Sequence[bool]) -> tuple[Columns, Rows]:
    return list(compress(columns, are_wanted)), [list(compress(row, are_wanted)) for row in rows]


def _show_rich(pane: Pane, columns: Columns, rows: Rows) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    shown = [[Cell(printable(cell.text), cell.tone) for cell in row] for row in rows]
    sizes = widths(columns, shown, pane.width)
    for column, size in zip(columns, sizes, strict=True):
        side: Literal["left", "right"] = "right" if column.is_number else "left"
        overflow: Literal["fold", "ellipsis"] = "fold" if column.wraps else "ellipsis"
        table.add_column(
            column.title,
            justify=side,
            overflow=overflow,
            no_wrap=not column.wraps,
            max_width=size,
        )
    for row in shown:
        table.add_row(*(Text(cell.text, RICH_STYLES[cell.tone]) for cell in row))
    console = Console(color_system="auto" if pane.has_colour else None, width=pane.width)
    console.print(table)


def widths(columns: Columns, rows: Rows, room: int) -> list[int]:
    """How wide each column is in a line with so much room: those that shrink share what the others
    leave.
    """
    wanted = [
        max([len(column.title), *(width(row[place].text) for row in rows)])
        for place, column in enumerate(columns)
    ]
    fixed = sum(size for size, column in zip(wanted, columns, strict=True) if not column.shrinks)
    left = room - fixed - GAP * (len(columns) - 1)
    # The modest first, so that what they do not need goes to the others.
    shrinking = sorted((size, place) for place, size in enumerate(wanted) if columns[place].shrinks)
    for done, (size, place) in enumerate(shrinking):
        wanted[place] = max(_LEAST_WIDTH, min(size, left // (len(shrinking) - done)))
        left -= wanted[place]
    return wanted


def _show_plain(pane: Pane, columns: Columns, rows: Rows) -> None:
    lines = [[column.title for column in columns]]
    lines += [[printable(cell.text) or "-" for cell in row] for row in rows]
    sizes = [max(map(width, texts)) for texts in zip(*lines, strict=True)]
    for line in lines:
        pane.line(
            "  ".join(
                padded(text, size, column.is_number)
                for text, size, column in zip(line, sizes, columns, strict=True)
            ).rstrip()
        )
