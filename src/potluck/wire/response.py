"""What the server answered, as a value or as the error that it meant.

Anything may sit behind an address: another program, a proxy with a page of its own, an older
server. Whatever comes, the caller gets a value of the asked type or a PotluckError.
"""

from typing import TypeVar

from potluck.model import error
from potluck.model.error import BadSettings, InvalidInput, PotluckError
from potluck.wire.codec import decode_json
from potluck.wire.problem import Problem, to_error

T = TypeVar("T")

ELSEWHERE = 307
# What a proxy in front of the server may say in its own words. That a request is malformed or in
# conflict only the server can tell: on its word outcomes are dropped. So is that a credential is
# over: on that word sessions end, and providers.
_BY_STATUS: dict[int, type[PotluckError]] = {
    401: error.Forbidden,
    403: error.Forbidden,
    404: error.NotFound,
    408: error.Unavailable,
    413: error.TooLarge,
    429: error.RateLimited,
}


def decoded(body: bytes, kind: type[T], url: str) -> T:
    """The body of a success."""
    try:
        return decode_json(body, kind)
    except InvalidInput as cause:
        why = cause.detail.removeprefix("The body does not fit: ").rstrip(".")
        raise not_potluck(url, why) from cause


def failure(status: int, body: bytes, url: str) -> PotluckError:
    """The error behind an answer that is not a success."""
    try:
        return to_error(decode_json(body, Problem))
    except InvalidInput:
        return _by_status(status, url)


def elsewhere(place: str, url: str) -> str:
    """Where the server sends us for bytes, without our token: never from https into the open."""
    if not place.startswith("https:" if url.startswith("https:") else ("http:", "https:")):
        raise not_potluck(url, "it sends us elsewhere, and without https")
    return place


def not_potluck(url: str, why: str) -> BadSettings:
    """Something answers, so waiting would not help: the address is wrong, or the version is."""
    return BadSettings(
        f"What answers at {url} does not speak this version of Potluck: {why}.",
        "Check the address, and compare `potluck version` here and there.",
    )


def _by_status(status: int, url: str) -> PotluckError:
    # Proxies have numbers of their own for a server that answers too late or not at all.
    kind = error.Unavailable if 500 <= status < 600 else _BY_STATUS.get(status)
    if kind is None:
        return not_potluck(url, f"HTTP status {status}")
    return kind(
        f"{url} answered with HTTP status {status} and no explanation.",
        "Something between you and the server may have answered in its place.",
    )
