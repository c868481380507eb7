"""The versions of Potluck that understand each other, and how programs tell theirs.

People see the version, programs compare the protocol: a number that changes only if one side would
misunderstand the other. Clients and providers send both with every request. Programs that are not
Potluck send neither, and are never refused for it.
"""

import re

# Raised when a message changes its meaning, or a required one is added. New optional fields and new
# operations leave it as it is.
PROTOCOL = 1
# Providers and clients of the last minor version still use it.
OLDEST_PROTOCOL = 1
# Of programs that do not send it, as those of Potluck 0.1.
FIRST_PROTOCOL = 1
PROTOCOL_HEADER = "Potluck-Protocol"

_MAJOR_AND_MINOR = re.compile(r"(\d+)\.(\d+)")
_PRODUCT = re.compile(r"potluck/([\w.+-]{1,100})")


def request_headers(version: str) -> dict[str, str]:
    """What a program of this version sends with every request."""
    return {"User-Agent": f"potluck/{version}", PROTOCOL_HEADER: str(PROTOCOL)}


def minor_version(version: str) -> tuple[int, int] | None:
    """Major and minor number; None if the version cannot be read."""
    match = _MAJOR_AND_MINOR.match(version)
    return (int(match[1]), int(match[2])) if match else None


def is_earlier(version: str, than: str) -> bool:
    """Whether the minor version is an earlier one. Unreadable versions are not."""
    minor, other = minor_version(version), minor_version(than)
    return minor is not None and other is not None and minor < other


def parse_user_agent(text: str) -> str | None:
    """The version of Potluck that sends this User-Agent; None for other programs."""
    match = _PRODUCT.match(text)
    return match[1] if match else None


def explain_difference(ours: str, theirs: str) -> str:
    """For a client whose request was refused: the other version of the server, if it has one."""
    if minor_version(theirs) is None or minor_version(ours) == minor_version(theirs):
        return ""
    if is_earlier(theirs, ours):
        return (
            f"The server runs an earlier version of Potluck ({theirs}) than this client ({ours}):"
            " what is new in the client does not work there. Ask its operator to upgrade it."
        )
    return (
        f"The server runs a later version of Potluck ({theirs}) than this client ({ours}): upgrade"
        " the client, with the command on the server's front page."
    )
