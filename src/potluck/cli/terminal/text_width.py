"""The width of text in terminal cells: a Chinese character or an emoji takes two.

Text must go through `screen.printable` first, which removes characters of ambiguous width.
"""

ELLIPSIS = "…"


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
