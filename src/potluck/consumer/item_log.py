"""Splits the log of a range of items by item.

A node precedes the output of each item with a remark that names it. In a range of one item all
output belongs to that item, with or without a remark.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from potluck.model.task import ItemRange
from potluck.wire.consumer import LogPage, LogPiece

STREAMS = ("stdout", "stderr")
# Nodes are untrusted: numbers that no array can have do not match.
NUMBER = r"(0|[1-9][0-9]{0,8})"
_TITLE = re.compile(rf"item {NUMBER}:")


def split_by_item(
    pages: Iterable[LogPage], items: ItemRange
) -> Iterator[tuple[LogPage, list[tuple[int, LogPiece]]]]:
    """Yields each page with its pieces by item; the platform's remarks belong to no item."""
    item = items.start if len(items) == 1 else None
    for page in pages:
        pieces = []
        for piece in page.pieces:
            if piece.stream not in STREAMS:
                started = _started_item(piece)
                item = item if started is None else started
            elif item is not None:
                pieces.append((item, piece))
        yield page, pieces


def _started_item(piece: LogPiece) -> int | None:
    """The last item that the remarks name."""
    titles = filter(None, map(_TITLE.fullmatch, piece.text.splitlines()))
    return next((int(title[1]) for title in reversed(list(titles))), None)


def select_item(pages: Iterable[LogPage], items: ItemRange, item: int) -> Iterator[LogPage]:
    """Yields all pages, whose other fields may matter, with only the output of this item."""
    for page, pieces in split_by_item(pages, items):
        yield replace(page, pieces=[piece for number, piece in pieces if number == item])
