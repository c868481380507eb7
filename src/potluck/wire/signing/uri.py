"""URIs of RFC 3986, as allowed in sign-in messages.

The regular expressions have no nested repetition, so hostile input takes linear time.
"""

import ipaddress
import re

_UNRESERVED = "A-Za-z0-9._~\\-"
_SUB_DELIMS = "!$&'()*+,;="
_ESCAPED = "%[0-9A-Fa-f]{2}"
PCHAR = f"(?:[{_UNRESERVED}{_SUB_DELIMS}:@]|{_ESCAPED})"
_SCHEME = "[A-Za-z][A-Za-z0-9+.\\-]*"
_USER = f"(?:[{_UNRESERVED}{_SUB_DELIMS}:]|{_ESCAPED})*"
_LITERAL = f"\\[[0-9A-Fa-fvV.:{_UNRESERVED}{_SUB_DELIMS}]+\\]"
_NAME = f"(?:[{_UNRESERVED}{_SUB_DELIMS}]|{_ESCAPED})*"
AUTHORITY = f"(?:{_USER}@)?(?:{_LITERAL}|{_NAME})(?::[0-9]*)?"
_PATH = f"(?:{PCHAR}|/)*"
_TAIL = f"(?:{PCHAR}|[/?])*"

_AUTHORITY = re.compile(f"(?:{_USER}@)?(?P<host>{_LITERAL}|{_NAME})(?::[0-9]*)?")
_URI = re.compile(
    f"{_SCHEME}:(?://(?P<authority>{AUTHORITY})(?:/{_PATH})?|(?!//){_PATH})"
    f"(?:\\?{_TAIL})?(?:#{_TAIL})?"
)
_FUTURE = re.compile(f"[vV][0-9A-Fa-f]+\\.[{_UNRESERVED}{_SUB_DELIMS}:]+")


def is_authority(text: str) -> bool:
    """Whether it is `[user@]host[:port]`; a host in brackets must be an IPv6 address."""
    match = _AUTHORITY.fullmatch(text)
    return match is not None and _is_host(match["host"])


def is_uri(text: str) -> bool:
    match = _URI.fullmatch(text)
    return match is not None and (match["authority"] is None or is_authority(match["authority"]))


def _is_host(host: str) -> bool:
    if not host.startswith("["):
        return True
    inside = host[1:-1]
    if _FUTURE.fullmatch(inside):
        return True
    try:
        ipaddress.IPv6Address(inside)
    except ValueError:
        return False
    return "%" not in inside
