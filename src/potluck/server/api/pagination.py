"""The cursor of a page: the id of the last of the page before."""

from potluck.model.error import InvalidInput
from potluck.model.ids import is_id


def check(cursor: str | None, kind: str) -> None:
    if cursor is not None and not is_id(cursor, kind):
        raise InvalidInput("That cursor is none.", "Use `next_cursor` of the page before.")
