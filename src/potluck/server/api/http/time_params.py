"""Time parameters: with an offset, and within the supported range."""

from datetime import UTC, datetime
from typing import Annotated

from litestar.params import QueryParameter

from potluck.model.error import InvalidInput

Since = Annotated[datetime | None, QueryParameter(name="since", required=False)]
Until = Annotated[datetime | None, QueryParameter(name="until", required=False)]

OLDEST = datetime(2000, 1, 1, tzinfo=UTC)  # before any data


def moment(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise InvalidInput(
            "`since` and `until` need an offset from UTC.", "Write 2026-01-31T12:00:00Z."
        )
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise InvalidInput("The time is out of range.", "Choose a year near the present.") from None
