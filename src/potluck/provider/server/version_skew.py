"""What different versions of node and server mean, and what to do about it.

Versions that differ only in the last number are fully compatible. Otherwise tasks still run as long
as both use the same protocol (else the server rejects the node), but features that only one of them
has do not work. Neither is a reason to stop running tasks.
"""

import re

from msgspec import Struct

import potluck
from potluck.model.error import InvalidInput, PotluckError, UpgradeRequired
from potluck.provider.announcement import Announce, VersionSkew

_MAJOR_AND_MINOR = re.compile(r"(\d+)\.(\d+)")


class Skew(Struct, frozen=True):
    detail: str
    hint: str


def skew(ours: str, theirs: str) -> Skew | None:
    """None for compatible versions, and for unreadable ones."""
    our_part, their_part = _part(ours), _part(theirs)
    if our_part is None or their_part is None or our_part == their_part:
        return None
    order, hint = (
        ("older", _update(theirs))
        if our_part < their_part
        else ("newer", f"Ask the operator to update the server; or: {_update(theirs)}")
    )
    return Skew(
        f"Potluck on this machine is {order} ({ours}) than the server's ({theirs})."
        " Tasks run; features that only one of the two has do not work.",
        hint,
    )


def misunderstood(ours: str, theirs: str, detail: str) -> Skew | None:
    """Why a server with another version rejects our registration; None if the versions match."""
    if not theirs or ours == theirs:
        return None
    return Skew(
        f"The server (Potluck {theirs}) does not understand the registration of this machine"
        f" (Potluck {ours}): {detail}",
        f"The versions are not compatible. {_update(theirs)}",
    )


def _update(version: str) -> str:
    return (
        f"Install Potluck {version} here, and restart the provider: the server's page in a browser"
        " shows the install command."
    )


def _part(version: str) -> tuple[int, int] | None:
    match = _MAJOR_AND_MINOR.match(version)
    return (int(match[1]), int(match[2])) if match else None


class Skews:
    """Announces a skew once for each version of the server."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._pending: VersionSkew | None = None
        self.theirs = ""

    def note(self, theirs: str) -> None:
        """Called at a registration, whose success is announced first; then comes `tell`."""
        if theirs == self.theirs:
            return
        self.theirs = theirs
        ours, difference = potluck.__version__, skew(potluck.__version__, theirs)
        self._pending = None
        if difference is not None:
            self._pending = VersionSkew(ours, theirs, difference.detail, difference.hint)

    def tell(self) -> None:
        if self._pending is not None:
            self._announce(self._pending)
            self._pending = None


def explain_rejection(error: InvalidInput, theirs: str) -> PotluckError:
    """The server's error, or the version skew that explains it."""
    why = misunderstood(potluck.__version__, theirs, error.detail)
    return error if why is None else UpgradeRequired(why.detail, why.hint)
