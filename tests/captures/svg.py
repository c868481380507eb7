"""A terminal's screen as a picture: text that can be read, searched and scaled."""

from collections.abc import Iterator
from html import escape
from itertools import groupby

import pyte
from msgspec import Struct

_CELL_WIDTH, _LINE_HEIGHT, _MARGIN = 8.4, 19.0, 12.0
_FONT = "ui-monospace, 'Cascadia Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


class Look(Struct, frozen=True):
    """A terminal's own colours; those of 256 that are no name are the same in each."""

    background: str
    text: str
    named: dict[str, str]


DARK = Look(
    "#0d1117",
    "#d7dde4",
    {
        "red": "#ff7b72",
        "green": "#3fb950",
        "brown": "#d29922",
        "blue": "#58a6ff",
        "cyan": "#39c5cf",
        "magenta": "#bc8cff",
        "white": "#b1bac4",
        "black": "#484f58",
    },
)
LIGHT = Look(
    "#ffffff",
    "#1f2328",
    {
        "red": "#cf222e",
        "green": "#116329",
        "brown": "#9a6700",
        "blue": "#0969da",
        "cyan": "#1b7c83",
        "magenta": "#8250df",
        "white": "#6e7781",
        "black": "#24292f",
    },
)


def drawn(screen: pyte.Screen, lines: int, look: Look) -> str:
    """The first lines of the screen."""
    width = screen.columns * _CELL_WIDTH + 2 * _MARGIN
    height = lines * _LINE_HEIGHT + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' font-family="{_FONT}" font-size="14">',
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8"'
        f' fill="{look.background}" stroke="#8c959f"/>',
        *(part for line in range(lines) for part in _line(screen, line, look)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _line(screen: pyte.Screen, number: int, look: Look) -> Iterator[str]:
    cells = [screen.buffer[number][column] for column in range(screen.columns)]
    y = _MARGIN + number * _LINE_HEIGHT
    column = 0
    for style, run in groupby(cells, key=lambda cell: cell._replace(data="")):
        cells_run = list(run)
        if style.reverse:
            yield _block(column, len(cells_run), y, _LINE_HEIGHT, _colour(style.fg, look))
        if style.underscore:
            yield _block(column, len(cells_run), y + _LINE_HEIGHT - 2, 1, look.text)
        colour = look.background if style.reverse else _colour(style.fg, look)
        for first, text in _words([cell.data for cell in cells_run]):
            yield _text(text, column + first, y, colour, style.bold)
        column += len(cells_run)


def _words(cells: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Each by itself: between them a picture has no blanks, only places."""
    for is_blank, run in groupby(enumerate(cells), key=lambda item: item[1] == " "):
        cells_run = list(run)
        if not is_blank:
            yield cells_run[0][0], [text for _, text in cells_run]


def _block(column: int, count: int, y: float, height: float, colour: str) -> str:
    x, width = _MARGIN + column * _CELL_WIDTH, count * _CELL_WIDTH
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _text(cells: list[str], column: int, y: float, colour: str, is_bold: bool) -> str:
    """As wide as its cells, whatever the font; a wide character is followed by an empty one."""
    x, width = _MARGIN + column * _CELL_WIDTH, len(cells) * _CELL_WIDTH
    bold = ' font-weight="bold"' if is_bold else ""
    placed = f'x="{x:.1f}" y="{y + 14:.1f}" textLength="{width:.1f}"'
    return f'<text {placed} fill="{colour}"{bold}>{escape("".join(cells))}</text>'


def _colour(colour_name: str, look: Look) -> str:
    if colour_name == "default":
        return look.text
    return look.named.get(colour_name.removeprefix("bright"), f"#{colour_name}")
