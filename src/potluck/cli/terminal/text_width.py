"""How much of a terminal's line a text takes: a Chinese character or an emoji takes two cells.

Text goes through `printable` of `screen.py` first, which leaves nothing whose width terminals
disagree about.
"""

ELLIPSIS = "…"


def width(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, most: int) -> str:
    """The text, or as much of its beginning as there is room for, and a sign that there is more."""
    if width(text) <= most:
        return text
    if most < 1:
        return ""
    from rich.cells import set_cell_size

    return set_cell_size(text, most - 1).rstrip(" ") + ELLIPSIS


def padded(text: str, size: int, is_number: bool = False) -> str:
    room = " " * (size - width(text))
    return room + text if is_number else text + room
