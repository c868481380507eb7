"""Exceptions of functions as they arrive from the sandbox: untrusted plain data."""

from potluck.provider.attempt.mask import Mask
from potluck.provider.one_line import one_line
from potluck.wire.plain_values import PlainError, decode, encode

_DETAIL_CHARACTERS = 200


def error_line(error: bytes) -> str:
    """Type and message in one line; empty if the data is malformed."""
    try:
        fields = decode(error)
        return one_line(f"{fields['type']}: {fields['message']}", _DETAIL_CHARACTERS)
    except (PlainError, KeyError, TypeError):
        return ""


def mask_error(error: bytes, mask: Mask) -> bytes:
    """Masks secrets: the error is stored here, and the node's owner sees its first line."""
    if not mask:
        return error
    try:
        fields = decode(error)
        return encode({name: mask.text(fields[name]) for name in ("type", "message", "traceback")})
    except (PlainError, KeyError, TypeError, AttributeError):
        return error


def shorten_error(error: bytes) -> bytes:
    """A short form for items that share an error which is reported in full once."""
    try:
        fields = decode(error)
        kind, message = (one_line(fields[name], _DETAIL_CHARACTERS) for name in ("type", "message"))
        return platform_error(kind, message)
    except (PlainError, KeyError, TypeError, AttributeError):
        return platform_error("Exception", "")


def platform_error(kind: str, message: str) -> bytes:
    """An error of the platform in the same format."""
    return encode({"type": kind, "message": message, "traceback": ""})
