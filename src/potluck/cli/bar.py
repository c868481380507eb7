"""How far something has come, drawn."""

_CELLS = 20


def bar(percent: int) -> str:
    """For a line that is drawn again and again."""
    filled = percent * _CELLS // 100
    return f"{'━' * filled}{'╌' * (_CELLS - filled)} {percent} %"


def in_tens(percent: int) -> str:
    """For a log, where every change is a line: it changes ten times and not ten thousand."""
    return f"{percent // 10 * 10} %"
