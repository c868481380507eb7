"""Times that a caller names: with an offset, and in a year of ours."""

from datetime import UTC, datetime
from typing import Annotated

from litestar.params import QueryParameter

from potluck.model.error import InvalidInput

Since = Annotated[datetime | None, QueryParameter(name="since", required=False)]
Until = Annotated[datetime | None, QueryParameter(name="until", required=False)]

OLDEST = datetime(2000, 1, 1, tzinfo=UTC)  # before there was anything


def moment(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise InvalidInput(
            "`since` and `until` need an offset from UTC.", "Write 2026-01-31T12:00:00Z."
        )
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidInput("That is beyond all calendars.", "Name a year of our time.") from None
