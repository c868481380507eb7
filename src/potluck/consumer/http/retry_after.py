"""The Retry-After header: how long the server, or a proxy before it, asks us to wait."""

from datetime import datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Both forms of the header: seconds, or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, (parsedate_to_datetime(header) - now).total_seconds())
    except (ValueError, TypeError):
        return None
