"""Rows for people: drawn by rich in a terminal, plain aligned columns in a pipe."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from potluck.cli.cells import padded, width
from potluck.cli.screen import Pane, Tone, printable

RICH_STYLES = {
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.BUSY: "cyan",
    Tone.WAITING: "yellow",
    Tone.FAINT: "dim",
    Tone.STRONG: "bold",
    Tone.PLAIN: "",
}


_GAP = 2
_LEAST_WIDTH = 6


class Cell(Struct, frozen=True):
    text: str
    tone: Tone = Tone.PLAIN


class Column(Struct, frozen=True):
    title: str
    is_number: bool = False
    shrinks: bool = False  # gives way when the terminal is narrow
    wraps: bool = False  # and then goes on in the next line, instead of being cut


def show_table(pane: Pane, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    if pane.is_terminal:
        _show_rich(pane, columns, rows)
    else:
        _show_plain(pane, columns, rows)


def _show_rich(pane: Pane, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
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


def widths(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], room: int) -> list[int]:
    """How wide each column is in a line with so much room: those that shrink share what the others
    leave.
    """
    wanted = [
        max([len(column.title), *(width(row[place].text) for row in rows)])
        for place, column in enumerate(columns)
    ]
    fixed = sum(size for size, column in zip(wanted, columns, strict=True) if not column.shrinks)
    left = room - fixed - _GAP * (len(columns) - 1)
    # The modest first, so that what they do not need goes to the others.
    shrinking = sorted((size, place) for place, size in enumerate(wanted) if columns[place].shrinks)
    for done, (size, place) in enumerate(shrinking):
        wanted[place] = max(_LEAST_WIDTH, min(size, left // (len(shrinking) - done)))
        left -= wanted[place]
    return wanted


def _show_plain(pane: Pane, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
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
