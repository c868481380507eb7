"""What nodes offer and owners ask for, held to what can be meant. Nothing here is looked up."""

from typing import TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

import potluck
from potluck.model.device import DeviceDescription
from potluck.model.error import InvalidInput, UpgradeRequired
from potluck.model.hours import parse_hours
from potluck.model.terms import SANDBOXES, DeviceTerms, TermsChange
from potluck.wire.provider import PROTOCOL, RegisterNode
from potluck.wire.signing.address import checksummed

_OF_THE_NODE = (
    *("cores", "memory_bytes", "disk_bytes", "bandwidth_bytes_per_second", "sandbox"),
    *("has_containers", "images", "pulls_images"),
)
# Of a node as a whole: whom one node treats unlike others is planned for alone, on all of them.
_MOST_NAMED = 1_000

Terms = TypeVar("Terms", DeviceTerms, TermsChange)


def check_offer(offer: RegisterNode) -> RegisterNode:
    """The offer, with wallets as we spell them. Raises for what can not be meant."""
    check_protocol(offer.protocol, offer.description.potluck_version)
    node = offer.description
    _check_uuids(node.devices)
    devices = tuple(replace(each, terms=_spelled(each.terms)) for each in node.devices)
    _check_names(devices)
    return replace(offer, description=replace(node, devices=devices))


def check_change(change: TermsChange) -> TermsChange:
    said = [name for name in change.__struct_fields__[1:] if getattr(change, name) is not UNSET]
    if not said:
        raise InvalidInput("Nothing is to be changed.", "Say what: a price, hours, a pause …")
    if change.sandbox in (None, "none"):
        # A stolen session could then run anything there. The node refuses it, too: what it was
        # started with may also be none.
        raise InvalidInput(
            "The sandbox is not taken away from elsewhere.",
            "Say it on the machine itself: `potluck provider set sandbox=none`.",
        )
    if change.sandbox not in (UNSET, *SANDBOXES):
        raise InvalidInput(
            f"There is no sandbox {str(change.sandbox)[:64]!r}.",
            f"There are: {', '.join(SANDBOXES)}.",
        )
    if (change.images, change.pulls_images) != (UNSET, UNSET):
        raise InvalidInput(
            "Which images are run, and fetched, is not said from elsewhere.",
            "Say it on the machine itself: `potluck provider set images=…`.",
        )
    if change.devices and (of_node := [name for name in said if name in _OF_THE_NODE]):
        raise InvalidInput(
            f"{', '.join(of_node)} can not be said of single devices.",
            "Leave the devices out: it is for the node as a whole.",
        )
    return _spelled(change)


def check_protocol(protocol: int, version: str) -> None:
    """Raises for a node that speaks otherwise; what it would say next would be misunderstood."""
    if protocol == PROTOCOL:
        return
    ours = potluck.__version__
    hint = (
        "Update Potluck on this machine, and start it again."
        if protocol < PROTOCOL
        else f"Ask the operator to update the server, or install Potluck {ours} on this machine."
    )
    raise UpgradeRequired(
        f"The node speaks protocol {protocol} (Potluck {version}),"
        f" and the server protocol {PROTOCOL} (Potluck {ours}).",
        hint,
    )


def _check_uuids(devices: tuple[DeviceDescription, ...]) -> None:
    uuids = [each.uuid.casefold() for each in devices]
    if len(set(uuids)) < len(uuids):
        raise InvalidInput("Two of the devices have the same uuid.", "Offer each device once.")
    parents = {each.parent_uuid.casefold(): each for each in devices if each.parent_uuid}
    if twice := sorted(parents.keys() & set(uuids)):
        part = parents[twice[0]]
        raise InvalidInput(
            f"{part.uuid} is a part of {part.parent_uuid}, and both are offered.",
            "Offer the card or its parts.",
        )


def _check_names(devices: tuple[DeviceDescription, ...]) -> None:
    named = {wallet for each in devices for wallet in (*each.terms.allow, *each.terms.deny)}
    if len(named) > _MOST_NAMED:
        raise InvalidInput(
            f"The lists of whom its devices take name {len(named):,} wallets.",
            f"Name at most {_MOST_NAMED:,} on one machine, on allow and deny together.",
        )


def _spelled(terms: Terms) -> Terms:
    if isinstance(terms.hours, str):
        parse_hours(terms.hours)
    return replace(terms, allow=_wallets(terms.allow), deny=_wallets(terms.deny))


def _wallets(said: tuple[str, ...] | UnsetType | None) -> tuple[str, ...] | UnsetType | None:
    """Each once, in the one spelling that accounts have."""
    if not isinstance(said, tuple):
        return said
    return tuple(dict.fromkeys(map(checksummed, said)))
