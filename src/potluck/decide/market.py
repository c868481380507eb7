"""Sums up what is on offer: prices by model, and how many waiting tasks would take each model."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from potluck.decide.pool.model_patterns import matches_model
from potluck.model.device import DeviceKind
from potluck.model.market import ModelOffer, PriceRange

MOST_MODELS: Final = 100
_PRICE_RANGES: Final = 12


class OfferedDevices(Struct, frozen=True):
    """Devices that are alike: of one kind and model, with one price."""

    kind: DeviceKind
    model: str
    price_micro_per_hour: int
    memory_bytes: int  # of the largest
    devices: int
    free: int


class DeviceDemand(Struct, frozen=True):
    """Waiting tasks with the same wishes."""

    kind: DeviceKind | None
    model: str | None  # a pattern
    memory_bytes: int
    max_price_micro_per_hour: int | None
    tasks: int


def sum_up(offers: Iterable[OfferedDevices], wishes: Sequence[DeviceDemand]) -> list[ModelOffer]:
    """Most devices first; the models beyond a number are left out."""
    by_model: defaultdict[tuple[DeviceKind, str], list[OfferedDevices]] = defaultdict(list)
    for offer in offers:
        by_model[offer.kind, offer.model].append(offer)
    found = sorted(by_model.values(), key=lambda same: (-_count(same), same[0].model))
    return [_model_offer(same, wishes) for same in found[:MOST_MODELS]]


def _model_offer(same_model: list[OfferedDevices], wishes: Sequence[DeviceDemand]) -> ModelOffer:
    same_model = sorted(same_model, key=lambda offer: offer.price_micro_per_hour)
    first, last = same_model[0], same_model[-1]
    memory_bytes = max(offer.memory_bytes for offer in same_model)
    lowest = first.price_micro_per_hour
    return ModelOffer(
        first.kind,
        first.model,
        memory_bytes,
        _count(same_model),
        sum(offer.free for offer in same_model),
        lowest,
        _median(same_model),
        last.price_micro_per_hour,
        _price_ranges(same_model),
        sum(
            wish.tasks
            for wish in wishes
            if _takes(wish, first.kind, first.model, memory_bytes, lowest)
        ),
    )


def _takes(
    wish: DeviceDemand, kind: DeviceKind, model: str, memory_bytes: int, lowest_price: int
) -> bool:
    """Whether the best device of a model would do; a hint, as other requirements count too."""
    return (
        wish.kind in (None, kind)
        and wish.memory_bytes <= memory_bytes
        and (wish.max_price_micro_per_hour is None or wish.max_price_micro_per_hour >= lowest_price)
        and (wish.model is None or matches_model(wish.model, model, memory_bytes))
    )


def _median(by_price: list[OfferedDevices]) -> int:
    left = (_count(by_price) + 1) // 2
    for offer in by_price:
        left -= offer.devices
        if left <= 0:
            return offer.price_micro_per_hour
    raise AssertionError("there is at least one device")


def _price_ranges(by_price: list[OfferedDevices]) -> list[PriceRange]:
    """Each price by itself if they are few, and else ranges of one width."""
    lowest, highest = by_price[0].price_micro_per_hour, by_price[-1].price_micro_per_hour
    if len(by_price) <= _PRICE_RANGES:
        return [
            PriceRange(offer.price_micro_per_hour, offer.price_micro_per_hour, offer.devices)
            for offer in by_price
        ]
    width = (highest - lowest) // _PRICE_RANGES + 1
    counts: defaultdict[int, int] = defaultdict(int)
    for offer in by_price:
        counts[(offer.price_micro_per_hour - lowest) // width] += offer.devices
    return [
        PriceRange(lowest + place * width, min(lowest + (place + 1) * width - 1, highest), count)
        for place, count in sorted(counts.items())
    ]


def _count(offers: Iterable[OfferedDevices]) -> int:
    return sum(offer.devices for offer in offers)
