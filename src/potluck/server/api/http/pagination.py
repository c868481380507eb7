"""Page parameters. A cursor is the id of the last item of the previous page."""

from collections.abc import Sequence
from typing import Annotated, Protocol, TypeVar

from litestar.params import QueryParameter

from potluck.model.error import InvalidInput
from potluck.model.ids import is_id

Cursor = Annotated[str | None, QueryParameter(name="cursor", max_length=64, required=False)]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=500)]
LongLimit = Annotated[int, QueryParameter(name="limit", ge=1, le=1000)]


class _Listed(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_Listed)


def next_page(rows: Sequence[T], limit: int) -> tuple[list[T], str | None]:
    """The page, and the cursor after it, if there may be more."""
    return list(rows), rows[-1].id if len(rows) == limit else None


def check_cursor(cursor: str | None, kind: str) -> None:
    """Raises InvalidInput unless it is an id of this kind."""
    if cursor is not None and not is_id(cursor, kind):
        raise bad_cursor()


def bad_cursor() -> InvalidInput:
    return InvalidInput("The cursor is not valid.", "Use `next_cursor` of the previous page.")
