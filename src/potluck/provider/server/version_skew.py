"""Node and server of different versions: what that means, and what to do about it.

Versions that differ in their last number only work together in everything. Otherwise tasks still
run, as long as both speak the same protocol (else the server refuses the node), but what only one
of the two knows is not to be had. Neither is a reason to stop what runs.
"""

import re

from msgspec import Struct

import potluck
from potluck.model.error import InvalidInput, PotluckError, UpgradeRequired
from potluck.provider.announcement import Announce, VersionSkew

_MAJOR_AND_MINOR = re.compile(r"(\d+)\.(\d+)")


class Skew(Struct, frozen=True):
    """In which way the two differ, as a sentence and what to do."""

    detail: str
    hint: str


def skew(ours: str, theirs: str) -> Skew | None:
    """None for versions that are meant to work together, and for what is no version."""
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
        " Tasks run all the same; what only one of the two knows does not work.",
        hint,
    )


def misunderstood(ours: str, theirs: str, detail: str) -> Skew | None:
    """Why a server that is not of our version does not understand us; None if it is of ours."""
    if not theirs or ours == theirs:
        return None
    return Skew(
        f"The server (Potluck {theirs}) does not understand the registration of this machine"
        f" (Potluck {ours}): {detail}",
        f"They are too far apart. {_update(theirs)}",
    )


def _update(version: str) -> str:
    return (
        f"Install Potluck {version} here, and start the provider again: the server's address in a"
        " browser shows the line that installs what it runs."
    )


def _part(version: str) -> tuple[int, int] | None:
    found = _MAJOR_AND_MINOR.match(version)
    return (int(found[1]), int(found[2])) if found else None


class Skews:
    """Tells the owner, once for each version that the server turns out to be."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._untold: VersionSkew | None = None
        self.theirs = ""

    def note(self, theirs: str) -> None:
        """At a registration; that it succeeded is for others to tell first."""
        if theirs == self.theirs:
            return
        self.theirs = theirs
        ours, found = potluck.__version__, skew(potluck.__version__, theirs)
        self._untold = (
            None if found is None else VersionSkew(ours, theirs, found.detail, found.hint)
        )

    def tell(self) -> None:
        if self._untold is not None:
            self._announce(self._untold)
            self._untold = None


def explained(error: InvalidInput, theirs: str) -> PotluckError:
    """What the server found wrong with us, or why it did if it is of another version."""
    why = misunderstood(potluck.__version__, theirs, error.detail)
    return error if why is None else UpgradeRequired(why.detail, why.hint)
