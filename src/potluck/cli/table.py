"""Rows for people: drawn by rich in a terminal, plain aligned columns in a pipe."""

from collections.abc import Sequence

from msgspec import Struct

from potluck.cli.screen import Pane, Tone, printable

_RICH_STYLES = {
    Tone.GOOD: "green",
    Tone.BAD: "bold red",
    Tone.BUSY: "cyan",
    Tone.WAITING: "yellow",
    Tone.FAINT: "dim",
    Tone.STRONG: "bold",
    Tone.PLAIN: "",
}


class Cell(Struct, frozen=True):
    text: str
    tone: Tone = Tone.PLAIN


class Column(Struct, frozen=True):
    title: str
    is_number: bool = False
    shrinks: bool = False  # gives way when the terminal is narrow


def show_table(pane: Pane, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    if pane.is_terminal:
        _show_rich(pane, columns, rows)
    else:
        _show_plain(pane, columns, rows)


def _show_rich(pane: Pane, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.is_number else "left",
            overflow="ellipsis",
            no_wrap=True,
            ratio=1 if column.shrinks else None,
        )
    for row in rows:
        table.add_row(*(Text(printable(cell.text), _RICH_STYLES[cell.tone]) for cell in row))
    Console(no_color=not pane.has_colour, width=pane.width, highlight=False).print(table)


def _show_plain(pane: Pane, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    lines = [[column.title for column in columns]]
    lines += [[printable(cell.text) or "-" for cell in row] for row in rows]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    for line in lines:
        pane.line(
            "  ".join(
                text.rjust(width) if column.is_number else text.ljust(width)
                for text, width, column in zip(line, widths, columns, strict=True)
            ).rstrip()
        )
