"""What a function raised, as it comes from inside: plain data, of which we show the first line."""

from potluck.provider.attempt.mask import Mask
from potluck.provider.one_line import one_line
from potluck.wire.plain_values import PlainError, decode, encode

_DETAIL_CHARACTERS = 200


def error_line(error: bytes) -> str:
    """Its type and message; nothing, where it is nonsense."""
    try:
        told = decode(error)
        return one_line(f"{told['type']}: {told['message']}", _DETAIL_CHARACTERS)
    except (PlainError, KeyError, TypeError):
        return ""


def mask_error(error: bytes, mask: Mask) -> bytes:
    """Without secrets: it is written down here, and its first line is shown to the node's owner."""
    if not mask:
        return error
    try:
        told = decode(error)
        return encode({name: mask.text(told[name]) for name in ("type", "message", "traceback")})
    except (PlainError, KeyError, TypeError, AttributeError):
        return error


def shorten_error(error: bytes) -> bytes:
    """For those who share it with one who is told all of it."""
    try:
        told = decode(error)
        kind, message = (one_line(told[name], _DETAIL_CHARACTERS) for name in ("type", "message"))
        return platform_error(kind, message)
    except (PlainError, KeyError, TypeError, AttributeError):
        return platform_error("Exception", "")


def platform_error(kind: str, message: str) -> bytes:
    """What kept the value of a call from its owner, in the same shape."""
    return encode({"type": kind, "message": message, "traceback": ""})
