"""What different versions of node and server mean, and what to do about it.

Versions that differ only in the last number are fully compatible. Otherwise tasks still run as long
as both use the same protocol (else the server rejects the node), but features that only one of them
has do not work. Neither is a reason to stop running tasks.
"""

from msgspec import Struct

import potluck
from potluck.model.error import InvalidInput, PotluckError, UpgradeRequired
from potluck.provider.announcement import Announce, VersionSkew
from potluck.wire.codec import encode_json, encode_request
from potluck.wire.provider import RegisterNode, for_earlier_server
from potluck.wire.version import is_earlier, minor_version


class Skew(Struct, frozen=True):
    detail: str
    hint: str


def skew(ours: str, theirs: str) -> Skew | None:
    """None for compatible versions, and for unreadable ones."""
    our_part, their_part = minor_version(ours), minor_version(theirs)
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


class Skews:
    """Announces a skew once for each version of the server, and writes messages for it."""

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

    @property
    def is_server_earlier(self) -> bool:
        return is_earlier(self.theirs, potluck.__version__)

    def encode(self, message: Struct) -> bytes:
        """For an earlier server without what it does not know, which takes a little longer."""
        if self.is_server_earlier:
            return encode_request(for_earlier_server(message))
        return encode_json(message)

    def encode_registration(self, registration: RegisterNode) -> bytes:
        """Always without defaults: the server's version is not known yet."""
        understood = for_earlier_server(registration) if self.is_server_earlier else registration
        return encode_request(understood)

    def tell(self) -> None:
        if self._pending is not None:
            self._announce(self._pending)
            self._pending = None


def explain_rejection(error: InvalidInput, theirs: str) -> PotluckError:
    """The server's error, or the version skew that explains it."""
    why = misunderstood(potluck.__version__, theirs, error.detail)
    return error if why is None else UpgradeRequired(why.detail, why.hint)
