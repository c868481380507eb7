"""Tables: drawn by rich in a terminal, plain aligned columns in a pipe.

Widths are in terminal cells: a Chinese character or an emoji takes two. Text must go through
`screen.printable` first, which removes characters of ambiguous width.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from typing import Literal, TypeVar

from msgspec import Struct

from potluck.cli.terminal.screen import COLOURS, Pane, Screen, Tone, printable

ELLIPSIS = "…"
RICH_STYLES = {
    **{tone: f"color({number})" for tone, number in COLOURS.items()},
    Tone.BAD: f"bold color({COLOURS[Tone.BAD]})",
    Tone.STRONG: "bold",
    Tone.PLAIN: "",
}
GAP = 2
_LEAST_WIDTH = 6
V = TypeVar("V")


def width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def truncate(text: str, most: int) -> str:
    """Truncates a text that is wider than `most` cells, and ends it with an ellipsis."""
    if width(text) <= most:
        return text
    if most < 1:
        return ""
    from rich.cells import set_cell_size

    return set_cell_size(text, most - 1).rstrip(" ") + ELLIPSIS


def pad(text: str, size: int, is_number: bool = False) -> str:
    room = " " * (size - width(text))
    return room + text if is_number else text + room


class Cell(Struct, frozen=True):
    text: str
    tone: Tone = Tone.PLAIN


class TableColumn(Struct, frozen=True):
    title: str
    is_number: bool = False
    shrinks: bool = False  # if the terminal is narrow
    wraps: bool = False  # when shrunk, instead of being truncated
    from_width: int = 0  # narrower terminals omit the column


Columns = Sequence[TableColumn]
Rows = Sequence[Sequence[Cell]]


def show_table(pane: Pane, columns: Columns, rows: Rows) -> None:
    """Omits less important columns in a narrow terminal."""
    if pane.is_terminal:
        _show_rich(pane, *fit_columns(columns, rows, pane.width))
    else:
        _show_plain(pane, columns, rows)


def show_list(
    screen: Screen,
    name: str,
    values: Sequence[V],
    show: Callable[[Pane, Sequence[V]], None],
    none: str,
) -> None:
    """With --json the values under their name; else a table, or a sentence if there are none."""
    if screen.json:
        screen.emit({name: values})
    elif values:
        show(screen.out, values)
    else:
        screen.err.line(none)


def fit_columns(columns: Columns, rows: Rows, room: int) -> tuple[Columns, Rows]:
    """Selects the columns for a terminal of this width."""
    return _select(columns, rows, [column.from_width <= room for column in columns])


def drop_empty_columns(columns: Columns, rows: Rows) -> tuple[Columns, Rows]:
    """Drops columns without any text; without rows, none."""
    if not rows:
        return columns, rows
    return _select(
        columns, rows, [any(cell.text for cell in cells) for cells in zip(*rows, strict=True)]
    )


def _select(columns: Columns, rows: Rows, selectors: Sequence[bool]) -> tuple[Columns, Rows]:
    return list(compress(columns, selectors)), [list(compress(row, selectors)) for row in rows]


def _show_rich(pane: Pane, columns: Columns, rows: Rows) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    shown = [[Cell(printable(cell.text), cell.tone) for cell in row] for row in rows]
    sizes = column_widths(columns, shown, pane.width)
    for column, size in zip(columns, sizes, strict=True):
        side: Literal["left", "right"] = "right" if column.is_number else "left"
        overflow: Literal["fold", "ellipsis"] = "fold" if column.wraps else "ellipsis"
        table.add_column(
            column.title, justify=side, overflow=overflow, no_wrap=not column.wraps, max_width=size
        )
    for row in shown:
        table.add_row(*(Text(cell.text, RICH_STYLES[cell.tone]) for cell in row))
    console = Console(color_system="auto" if pane.has_colour else None, width=pane.width)
    console.print(table)


def column_widths(columns: Columns, rows: Rows, room: int) -> list[int]:
    """The width of each column; columns that shrink share the room that the others leave."""
    sizes = [
        max([len(column.title), *(width(row[index].text) for row in rows)])
        for index, column in enumerate(columns)
    ]
    fixed = sum(size for size, column in zip(sizes, columns, strict=True) if not column.shrinks)
    left = room - fixed - GAP * (len(columns) - 1)
    # The narrowest first, so that the room they do not need goes to the others.
    shrinking = sorted((size, index) for index, size in enumerate(sizes) if columns[index].shrinks)
    for done, (size, index) in enumerate(shrinking):
        sizes[index] = max(_LEAST_WIDTH, min(size, left // (len(shrinking) - done)))
        left -= sizes[index]
    return sizes


def _show_plain(pane: Pane, columns: Columns, rows: Rows) -> None:
    lines = [[column.title for column in columns]]
    lines += [[printable(cell.text) or "-" for cell in row] for row in rows]
    sizes = [max(map(width, texts)) for texts in zip(*lines, strict=True)]
    for line in lines:
        pane.line(
            "  ".join(
                pad(text, size, column.is_number)
                for text, size, column in zip(line, sizes, columns, strict=True)
            ).rstrip()
        )
