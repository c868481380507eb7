"""Validates what nodes offer and what owners request, without any lookups."""

from typing import TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from potluck.model.device import DeviceDescription
from potluck.model.error import InvalidInput
from potluck.model.hours import parse_hours
from potluck.model.terms import SANDBOXES, DeviceTerms, TermsChange
from potluck.wire.provider import RegisterNode
from potluck.wire.signing.address import checksummed

_NODE_FIELDS = (
    *("cores", "memory_bytes", "disk_bytes", "bandwidth_bytes_per_second", "sandbox"),
    *("has_containers", "images", "pulls_images", "others_on_disk", "gpu_share"),
    "fetches_pythons",
)
# Per node: every account with terms of its own is planned separately on all nodes.
_MAX_WALLETS = 1_000

Terms = TypeVar("Terms", DeviceTerms, TermsChange)


def check_offer(offer: RegisterNode) -> RegisterNode:
    """Returns the offer with wallets in canonical spelling. Raises if it is invalid.

    A node whose sandbox lacks a limit serves its owner only, whatever it claims.
    """
    node = offer.description
    _check_uuids(node.devices)
    devices = tuple(replace(device, terms=_canonical(device.terms)) for device in node.devices)
    _check_names(devices)
    return replace(
        offer,
        description=replace(node, devices=devices),
        own_tasks_only=offer.own_tasks_only or not node.sandbox.is_safe_for_strangers,
    )


def check_change(change: TermsChange) -> TermsChange:
    fields = [name for name in change.__struct_fields__[1:] if getattr(change, name) is not UNSET]
    if not fields:
        raise InvalidInput("The request changes nothing.", "Give a price, hours, a pause …")
    if change.sandbox in (None, "none"):
        # A stolen session could otherwise run anything there. The node refuses it too, since its
        # own file may also allow no sandbox.
        raise InvalidInput(
            "The sandbox cannot be disabled remotely.",
            "Run this on the machine itself: `potluck provider set sandbox=none`.",
        )
    if change.sandbox not in (UNSET, *SANDBOXES):
        raise InvalidInput(
            f"There is no sandbox {str(change.sandbox)[:64]!r}.",
            f"Available: {', '.join(SANDBOXES)}.",
        )
    if (change.images, change.pulls_images) != (UNSET, UNSET):
        raise InvalidInput(
            "The allowed images cannot be changed remotely.",
            "Run this on the machine itself: `potluck provider set images=…`.",
        )
    if change.others_on_disk is not UNSET:
        raise InvalidInput(
            "Whether other accounts use the disk cannot be changed remotely.",
            "Run this on the machine itself: `potluck provider set others_on_disk=…`.",
        )
    if change.devices and (node_fields := [name for name in fields if name in _NODE_FIELDS]):
        raise InvalidInput(
            f"{', '.join(node_fields)} cannot be set for single devices.",
            "Omit the devices: it applies to the whole node.",
        )
    return _canonical(change)


def _check_uuids(devices: tuple[DeviceDescription, ...]) -> None:
    uuids = [device.uuid.casefold() for device in devices]
    if len(set(uuids)) < len(uuids):
        raise InvalidInput("Two devices have the same uuid.", "Offer each device once.")
    parents = {device.parent_uuid.casefold(): device for device in devices if device.parent_uuid}
    if duplicates := sorted(parents.keys() & set(uuids)):
        part = parents[duplicates[0]]
        raise InvalidInput(
            f"{part.uuid} is a part of {part.parent_uuid}, but both are offered.",
            "Offer either the card or its parts.",
        )


def _check_names(devices: tuple[DeviceDescription, ...]) -> None:
    wallets = {wallet for device in devices for wallet in (*device.terms.allow, *device.terms.deny)}
    if len(wallets) > _MAX_WALLETS:
        raise InvalidInput(
            f"The allow and deny lists of its devices name {len(wallets):,} wallets.",
            f"Name at most {_MAX_WALLETS:,} wallets per machine, in both lists together.",
        )


def _canonical(terms: Terms) -> Terms:
    if isinstance(terms.hours, str):
        parse_hours(terms.hours)
    return replace(terms, allow=_wallets(terms.allow), deny=_wallets(terms.deny))


def _wallets(wallets: tuple[str, ...] | UnsetType | None) -> tuple[str, ...] | UnsetType | None:
    """Each wallet once, in the spelling of accounts."""
    if not isinstance(wallets, tuple):
        return wallets
    return tuple(dict.fromkeys(map(checksummed, wallets)))
