"""Merges devices that several routes have found into one entry for each card. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec.structs import replace

from potluck.model.device import DeviceKind
from potluck.provider.detect.types import FoundDevice

# Routes may count a card's memory with or without the part that its driver reserves.
_MEMORY_AGREES = 0.7


def merge_devices(
    by_vendor: Sequence[FoundDevice], by_opencl: Iterable[FoundDevice]
) -> list[FoundDevice]:
    """Each card once, with the vendor's data before OpenCL's.

    One OpenCL platform lists a card only once; several platforms often list the same one.
    """
    cards = list(by_vendor)
    platforms = groupby(
        (device for device in by_opencl if device.kind is DeviceKind.GPU),
        lambda device: device.platform,
    )
    for _, listed in platforms:
        free = list(range(len(cards)))
        for device in listed:
            at = _match(device, cards, free)
            if at is None:
                cards.append(device)
            else:
                free.remove(at)
                cards[at] = _complete(cards[at], device)
    return cards


def _match(device: FoundDevice, cards: Sequence[FoundDevice], free: Iterable[int]) -> int | None:
    """The index of the same card: by bus address, by model, or by vendor and memory size."""
    for is_same in (_has_same_slot, _has_same_model, _is_alike):
        for at in free:
            if is_same(device, cards[at]):
                return at
    return None


def _has_same_slot(device: FoundDevice, other: FoundDevice) -> bool:
    return (
        bool(device.slot) and device.slot == other.slot and not _are_in_other_domains(device, other)
    )


def _has_same_model(device: FoundDevice, other: FoundDevice) -> bool:
    return not _are_apart(device, other) and device.model.lower() == other.model.lower()


def _is_alike(device: FoundDevice, other: FoundDevice) -> bool:
    """For vendors whose cards have different names in the kernel and in OpenCL."""
    small, large = sorted((device.memory_bytes, other.memory_bytes))
    sizes_agree = small == 0 or small / large > _MEMORY_AGREES
    return not _are_apart(device, other) and _vendor(device) == _vendor(other) and sizes_agree


def _are_apart(device: FoundDevice, other: FoundDevice) -> bool:
    """Whether they are known to be in different slots."""
    if not device.slot or not other.slot:
        return False
    return device.slot != other.slot or _are_in_other_domains(device, other)


def _are_in_other_domains(device: FoundDevice, other: FoundDevice) -> bool:
    return None not in (device.domain, other.domain) and device.domain != other.domain


def _vendor(device: FoundDevice) -> str:
    """Advanced Micro Devices, Inc. -> amd; NVIDIA Corporation -> nvidia."""
    name = device.vendor.lower()
    if name.startswith("advanced micro devices"):
        return "amd"
    return name.replace("(r)", "").split()[0] if name.split() else ""


def _complete(card: FoundDevice, by_opencl: FoundDevice) -> FoundDevice:
    """Fills in what the vendor's route does not know."""
    return replace(
        card,
        memory_bytes=card.memory_bytes or by_opencl.memory_bytes,
        compute_units=card.compute_units or by_opencl.compute_units,
        driver=card.driver or by_opencl.driver,
        opencl_uuid=card.opencl_uuid or by_opencl.opencl_uuid,
    )
