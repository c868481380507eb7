"""What the server answered, as a value or as the error that it meant.

Anything may sit behind an address: another program, a proxy with a page of its own, an older
server. Whatever comes, the caller gets a value of the asked type or a PotluckError.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import msgspec

from potluck.model import error
from potluck.model.error import BadSettings, InvalidInput, PotluckError
from potluck.wire.codec import decode_json
from potluck.wire.problem import Problem, to_error

T = TypeVar("T")

# For answers that are not problem details, which a proxy in front of the server may send.
_BY_STATUS: dict[int, type[PotluckError]] = {
    400: error.InvalidInput,
    401: error.NotSignedIn,
    403: error.Forbidden,
    404: error.NotFound,
    409: error.Conflict,
    413: error.TooLarge,
    429: error.RateLimited,
    502: error.Unavailable,
    503: error.Unavailable,
    504: error.Unavailable,
}


def decoded(body: bytes, kind: type[T], url: str) -> T:
    """The body of a success."""
    try:
        return decode_json(body, kind)
    except InvalidInput as cause:
        raise not_potluck(url, _reason(cause)) from cause


def not_potluck(url: str, why: str) -> BadSettings:
    """Something answers, so waiting would not help: the address is wrong, or the version is."""
    return BadSettings(
        f"What answers at {url} does not speak this version of Potluck: {why}.",
        "Check the address, and compare `potluck version` here and there.",
    )


def failure(status: int, headers: Mapping[str, str], body: bytes, url: str) -> PotluckError:
    """The error behind an answer that is not a success."""
    asked = retry_after_seconds(headers.get("Retry-After"), datetime.now(UTC))
    problem = _problem(body)
    if problem is None:
        return _by_status(status, asked, url)
    told = to_error(problem)
    if told.retry_after_seconds is None:
        told.retry_after_seconds = asked
    return told


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


def _reason(cause: InvalidInput) -> str:
    return cause.detail.removeprefix("The body does not fit: ").rstrip(".")


def _problem(body: bytes) -> Problem | None:
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _by_status(status: int, asked: float | None, url: str) -> PotluckError:
    kind = _BY_STATUS.get(status)
    if kind is None:
        return not_potluck(url, f"HTTP status {status}")
    return kind(
        f"{url} answered with HTTP status {status} and no explanation.",
        "Something between you and the server may have answered in its place.",
        asked,
    )
