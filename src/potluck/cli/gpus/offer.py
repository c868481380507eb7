"""Devices grouped into offers, and their order.

Devices of one model at one price are one offer. Devices that take no work now are not offered.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from potluck.model.device import Availability, Standing
from potluck.model.node import NodeState
from potluck.wire.consumer import PoolDevice


class OfferOrder(StrEnum):
    FREE = "free"  # the largest free share
    PRICE = "price"  # the cheapest
    MEMORY = "memory"  # the largest
    RELIABILITY = "reliability"  # the most reliable
    MODEL = "model"  # by name


class DeviceOffer(Struct, frozen=True):
    """At least one device; all have the same model, memory and price."""

    devices: list[PoolDevice]

    @property
    def first(self) -> PoolDevice:
        return self.devices[0]

    @property
    def free_milli(self) -> int:
        return sum(map(usable_milli, self.devices))

    @property
    def reliabilities(self) -> tuple[float, float]:
        """The lowest and the highest."""
        values = [device.reliability for device in self.devices]
        return min(values), max(values)

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(device.node_name for device in self.devices))


def is_offered(device: PoolDevice) -> bool:
    """Whether it takes work from this account, now or after its current tasks."""
    return (
        device.node_state is NodeState.ONLINE
        and device.standing is Standing.BOUND
        and device.availability is Availability.AVAILABLE
        and (device.is_mine or not device.own_tasks_only)
    )


def usable_milli(device: PoolDevice) -> int:
    """The share that a task of this account could use now."""
    return device.free_milli if is_offered(device) else 0


def group_offers(devices: Iterable[PoolDevice]) -> list[DeviceOffer]:
    groups: dict[Any, list[PoolDevice]] = {}
    for device in filter(is_offered, devices):
        groups.setdefault(_group_key(device), []).append(device)
    return [DeviceOffer(group) for group in groups.values()]


def sort_offers(
    offers: Sequence[DeviceOffer], order: OfferOrder, is_reversed: bool
) -> list[DeviceOffer]:
    """Sorted as requested; ties by price, then the largest memory, then name."""
    ranked = sorted(offers, key=_default_rank)
    ranked.sort(key=lambda offer: _rank(offer, order), reverse=is_reversed)
    return ranked


def _group_key(device: PoolDevice) -> Any:
    description = device.description
    price = description.terms.price_micro_per_hour
    return description.kind, description.vendor, description.model, description.offered_bytes, price


def _default_rank(offer: DeviceOffer) -> Any:
    description = offer.first.description
    return (
        description.terms.price_micro_per_hour,
        -description.offered_bytes,
        description.model,
        offer.first.id,
    )


def _rank(offer: DeviceOffer, order: OfferOrder) -> Any:
    description = offer.first.description
    match order:
        case OfferOrder.FREE:
            return -offer.free_milli
        case OfferOrder.PRICE:
            return description.terms.price_micro_per_hour
        case OfferOrder.MEMORY:
            return -description.offered_bytes
        case OfferOrder.RELIABILITY:
            return tuple(-device for device in offer.reliabilities)
        case OfferOrder.MODEL:
            return description.model.lower()
