"""A line chart as SVG text: axes with round numbers, a line and dots for each series, a legend."""

from collections.abc import Sequence
from html import escape
from math import floor, log10

from msgspec import Struct

_WIDTH, _HEIGHT = 760, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 180, 50, 60
# Safe for colour-blind readers (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_STEPS = 6


class PlotSeries(Struct, frozen=True):
    name: str
    points: list[tuple[float, float]]


class _Axis(Struct, frozen=True):
    """Maps figures to pixels."""

    least: float
    most: float
    step: float
    start: float
    end: float

    def at(self, figure: float) -> float:
        return self.start + (figure - self.least) / (self.most - self.least) * (
            self.end - self.start
        )

    def ticks(self) -> list[float]:
        count = round((self.most - self.least) / self.step)
        return [self.least + index * self.step for index in range(count + 1)]


def line_chart(title: str, x_label: str, y_label: str, series: Sequence[PlotSeries]) -> str:
    figures = [point for curve in series for point in curve.points]
    assert figures, "there is something to draw"
    across = _axis([x for x, _ in figures], _LEFT, _WIDTH - _RIGHT)
    up = _axis([y for _, y in figures], _HEIGHT - _BOTTOM, _TOP)
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    half = (_TOP + _HEIGHT - _BOTTOM) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(middle, _TOP - 20, title, "middle", size=15),
        _text(middle, _HEIGHT - 15, x_label, "middle"),
        f'<text transform="translate(20 {half:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>",
        *_grid(across, up),
        *(part for number, curve in enumerate(series) for part in _line(number, curve, across, up)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axis(figures: list[float], start: float, end: float) -> _Axis:
    """From a round number below all figures to one above them."""
    least, most = min(figures), max(figures)
    step = _round_step((most - least) / _STEPS or abs(most) / _STEPS or 1.0)
    first = floor(least / step) * step
    last = first + step
    while last < most:
        last += step
    return _Axis(first, last, step, start, end)


def _round_step(step: float) -> float:
    power: float = 10.0 ** floor(log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def _grid(across: _Axis, up: _Axis) -> list[str]:
    parts = []
    for figure in across.ticks():
        x = across.at(figure)
        parts.append(_rule(x, up.start, x, up.end))
        parts.append(_text(x, up.start + 18, f"{figure:,.10g}", "middle"))
    for figure in up.ticks():
        y = up.at(figure)
        parts.append(_rule(across.start, y, across.end, y))
        parts.append(_text(across.start - 8, y + 4, f"{figure:,.10g}", "end"))
    return parts


def _line(number: int, series: PlotSeries, across: _Axis, up: _Axis) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    places = [(across.at(x), up.at(y)) for x, y in sorted(series.points)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    legend = _TOP + 10 + 20 * number
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places),
        f'<rect x="{_WIDTH - _RIGHT + 15}" y="{legend - 9}" width="10" height="10"'
        f' fill="{colour}"/>',
        _text(_WIDTH - _RIGHT + 32, legend, series.name, "start"),
    ]


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _text(x: float, y: float, text: str, anchor: str, size: int = 12) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
