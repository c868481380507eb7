"""How far something has come, drawn."""

_CELLS = 20
_FEW_CELLS = 6


def bar(percent: int) -> str:
    """For a line that is drawn again and again."""
    return f"{_drawn(percent, _CELLS)} {percent} %"


def short_bar(percent: int) -> str:
    """For a column: as wide whatever it says."""
    return f"{_drawn(percent, _FEW_CELLS)} {percent:3} %"


def in_tens(percent: int) -> str:
    """For a log, where every change is a line: it changes ten times and not ten thousand."""
    return f"{percent // 10 * 10} %"


def _drawn(percent: int, cells: int) -> str:
    filled = percent * cells // 100
    return f"{'━' * filled}{'╌' * (cells - filled)}"
