"""Devices as offers: what can be had, on which terms, and which comes first.

Devices of one model at one price are one offer. What takes no work now is none.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from potluck.model.device import WHOLE_DEVICE_MILLI, Availability, Standing
from potluck.model.node import NodeState
from potluck.wire.consumer import PoolDevice


class OfferOrder(StrEnum):
    """What comes first, each as people look for it."""

    FREE = "free"  # the most of it
    PRICE = "price"  # the cheapest
    MEMORY = "memory"  # the largest
    RELIABILITY = "reliability"  # the most reliable
    MODEL = "model"  # by name


class DeviceOffer(Struct, frozen=True):
    """At least one device, all of the same make and price."""

    devices: list[PoolDevice]

    @property
    def first(self) -> PoolDevice:
        return self.devices[0]

    @property
    def free(self) -> int:
        return sum(each.free_milli == WHOLE_DEVICE_MILLI for each in self.devices)

    @property
    def reliabilities(self) -> tuple[float, float]:
        """The worst and the best."""
        known = [each.reliability for each in self.devices]
        return min(known), max(known)

    @property
    def nodes(self) -> list[str]:
        return list(dict.fromkeys(each.node_name for each in self.devices))


def is_offered(device: PoolDevice) -> bool:
    """Whether it takes work from whoever asks, now or when it has done what it does."""
    return (
        device.node_state is NodeState.ONLINE
        and device.standing is Standing.BOUND
        and device.availability is Availability.AVAILABLE
        and (device.is_mine or not device.own_tasks_only)
    )


def offers(devices: Iterable[PoolDevice]) -> list[DeviceOffer]:
    """What is offered of these, put together."""
    groups: dict[Any, list[PoolDevice]] = {}
    for device in filter(is_offered, devices):
        groups.setdefault(_make(device), []).append(device)
    return [DeviceOffer(each) for each in groups.values()]


def in_order(
    found: Sequence[DeviceOffer], order: OfferOrder, is_reversed: bool
) -> list[DeviceOffer]:
    """By what was asked; then the cheapest, the largest, and by name."""
    ranked = sorted(found, key=_usually)
    ranked.sort(key=lambda offer: _rank(offer, order), reverse=is_reversed)
    return ranked


def _make(device: PoolDevice) -> Any:
    said = device.description
    price = said.terms.price_micro_per_hour
    return said.kind, said.vendor, said.model, said.offered_bytes, price


def _usually(offer: DeviceOffer) -> Any:
    said = offer.first.description
    return said.terms.price_micro_per_hour, -said.offered_bytes, said.model, offer.first.id


def _rank(offer: DeviceOffer, order: OfferOrder) -> Any:
    said = offer.first.description
    match order:
        case OfferOrder.FREE:
            return -sum(each.free_milli for each in offer.devices)
        case OfferOrder.PRICE:
            return said.terms.price_micro_per_hour
        case OfferOrder.MEMORY:
            return -said.offered_bytes
        case OfferOrder.RELIABILITY:
            return tuple(-each for each in offer.reliabilities)
        case OfferOrder.MODEL:
            return said.model.lower()
