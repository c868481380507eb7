"""Decodes responses of the server into a value or an error.

Another program, a proxy or an older server may answer at the address. In every case the caller gets
a value of the expected type or a PotluckError.
"""

from typing import TypeVar

from potluck.model import error
from potluck.model.error import BadSettings, InvalidInput, PotluckError
from potluck.wire.codec import decode_json
from potluck.wire.problem import Problem, to_error

T = TypeVar("T")

ELSEWHERE = 307
# Statuses that a proxy may send without a problem body. Malformed requests, conflicts and invalid
# credentials are believed only from the server itself: they end outcomes, sessions and providers.
_BY_STATUS: dict[int, type[PotluckError]] = {
    401: error.Forbidden,
    403: error.Forbidden,
    404: error.NotFound,
    408: error.Unavailable,
    413: error.TooLarge,
    429: error.RateLimited,
}


def decode_response(body: bytes, kind: type[T], url: str) -> T:
    """Decodes the body of a successful response."""
    try:
        return decode_json(body, kind)
    except InvalidInput as cause:
        why = cause.detail.removeprefix("The body is not valid: ").rstrip(".")
        raise not_potluck(url, why) from cause


def error_of_response(status: int, body: bytes, url: str) -> PotluckError:
    """The error of a response that is not a success."""
    try:
        return to_error(decode_json(body, Problem))
    except InvalidInput:
        return _by_status(status, url)


def checked_redirect(place: str, url: str) -> str:
    """The address that the server redirects to for bytes: never from https to plain http."""
    if not place.startswith("https:" if url.startswith("https:") else ("http:", "https:")):
        raise not_potluck(url, "it redirects to an address without https")
    return place


def not_potluck(url: str, why: str) -> BadSettings:
    """Something answers, so a retry would not help: the address or the version is wrong."""
    return BadSettings(
        f"The server at {url} does not match this version of Potluck: {why}.",
        "Check the address, and compare `potluck version` on both machines.",
    )


def _by_status(status: int, url: str) -> PotluckError:
    # Proxies have their own 5xx statuses for a server that is slow or down.
    kind = error.Unavailable if 500 <= status < 600 else _BY_STATUS.get(status)
    if kind is None:
        return not_potluck(url, f"HTTP status {status}")
    return kind(
        f"{url} answered with HTTP status {status} and no explanation.",
        "A proxy in front of the server may have answered.",
    )
