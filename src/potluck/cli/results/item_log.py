"""The log of a range of items, taken apart: what each of them wrote.

A node begins what an item writes with a remark that names it. Of a range of one item everything is
that item's, remark or not.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from potluck.model.task import ItemRange
from potluck.wire.consumer import LogPage, LogPiece

STREAMS = ("stdout", "stderr")
# A node may write anything: numbers that no array has are none.
NUMBER = r"(0|[1-9][0-9]{0,8})"
_TITLE = re.compile(rf"item {NUMBER}:")


def by_item(
    pages: Iterable[LogPage], items: ItemRange
) -> Iterator[tuple[LogPage, list[tuple[int, LogPiece]]]]:
    """Each page, and which item wrote what of it; what the platform remarks is nobody's."""
    item = items.start if len(items) == 1 else None
    for page in pages:
        written = []
        for piece in page.pieces:
            if piece.stream not in STREAMS:
                item = _named(piece) if _named(piece) is not None else item
            elif item is not None:
                written.append((item, piece))
        yield page, written


def _named(piece: LogPiece) -> int | None:
    """The item that begins here; remarks that came together may name several."""
    titles = filter(None, map(_TITLE.fullmatch, piece.text.splitlines()))
    return next((int(title[1]) for title in reversed(list(titles))), None)


def only_item(pages: Iterable[LogPage], items: ItemRange, wanted: int) -> Iterator[LogPage]:
    """The same pages, which may have more to tell, with nothing but what this item wrote."""
    for page, written in by_item(pages, items):
        pieces = [piece for item, piece in written if item == wanted]
        yield msgspec.structs.replace(page, pieces=pieces)
