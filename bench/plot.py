"""Plots of measurements as SVG: lines over time, and bars."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 190, 70, 20, 30, 28
_COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#475569")
_BAR_HEIGHT = 20
_LABEL_WIDTH = 250

Series = Mapping[str, Sequence[tuple[float, float]]]


def line_panel(title: str, series: Series, limit: float | None = None) -> str:
    """Lines over seconds, from zero; `limit` is drawn as a dashed line."""
    points = [point for line in series.values() for point in line]
    most_x = max((x for x, _ in points), default=1.0) or 1.0
    most_y = 1.1 * max([y for _, y in points] + [limit or 0.0] + [1e-9])

    def place(x: float, y: float) -> str:
        across = _LEFT + x / most_x * (_WIDTH - _LEFT - _RIGHT)
        down = _HEIGHT - _BOTTOM - y / most_y * (_HEIGHT - _TOP - _BOTTOM)
        return f"{across:.1f},{down:.1f}"

    parts = [_text(_LEFT, 18, title, "bold")]
    for share in (0.0, 0.5, 1.0):
        y = most_y * share
        line = f"{place(0, y)} {place(most_x, y)}"
        parts.append(f'<polyline points="{line}" stroke="#e2e8f0" fill="none"/>')
        parts.append(_text(6, float(place(0, y).split(",")[1]) + 4, _short(y)))
        parts.append(_text(float(place(most_x * share, 0).split(",")[0]) - 12, _HEIGHT - 8,
                           f"{most_x * share:.0f} s"))  # fmt: skip
    if limit is not None:
        line = f"{place(0, limit)} {place(most_x, limit)}"
        parts.append(
            f'<polyline points="{line}" stroke="#0f172a" stroke-dasharray="4 4" fill="none"/>'
        )
    for number, (name, data) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        line = " ".join(place(x, y) for x, y in data)
        parts.append(
            f'<polyline points="{line}" stroke="{colour}" fill="none" stroke-width="1.5"/>'
        )
        parts.append(
            _text(_WIDTH - 190 + 95 * (number % 2), 14 + 12 * (number // 2), name, "", colour)
        )
    return "".join(parts)


def bar_panel(title: str, bars: Mapping[str, tuple[float, str]]) -> tuple[str, int]:
    """A bar and its text for each name; returns the panel and its height."""
    most = max((length for length, _ in bars.values()), default=1.0) or 1.0
    parts = [_text(8, 18, title, "bold")]
    for number, (name, (length, text)) in enumerate(bars.items()):
        top = _TOP + number * _BAR_HEIGHT
        width = max(1.0, length / most * (_WIDTH - _LABEL_WIDTH - 130))
        colour = _COLOURS[0 if name.startswith("Potluck") else 5]
        parts.append(_text(8, top + 13, name))
        parts.append(
            f'<rect x="{_LABEL_WIDTH}" y="{top}" width="{width:.1f}" height="15" fill="{colour}"/>'
        )
        parts.append(_text(_LABEL_WIDTH + width + 6, top + 13, text))
    return "".join(parts), _TOP + len(bars) * _BAR_HEIGHT + 12


def write_lines(path: Path, panels: Sequence[str]) -> None:
    write(path, [(panel, _HEIGHT) for panel in panels])


def write(path: Path, panels: Sequence[tuple[str, int]]) -> None:
    """Panels with their heights, below each other."""
    parts, top = [], 0
    for panel, height in panels:
        parts.append(f'<g transform="translate(0,{top})">{panel}</g>')
        top += height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{top}"'
        ' font-family="sans-serif" font-size="11">'
        f'<rect width="{_WIDTH}" height="{top}" fill="white"/>'
    )
    path.write_text(f"{head}{''.join(parts)}</svg>\n", encoding="utf-8")


def _text(x: float, y: float, text: str, weight: str = "", colour: str = "#0f172a") -> str:
    style = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{style}>{escape(text)}</text>'


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"
