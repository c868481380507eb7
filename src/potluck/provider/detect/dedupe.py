"""Which devices are one card that several routes have found. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec.structs import replace

from potluck.model.device import DeviceKind
from potluck.provider.detect.types import FoundDevice

# Two routes may count a card's memory with or without what its driver keeps for itself.
_MEMORY_AGREES = 0.7


def merged(by_vendor: Sequence[FoundDevice], by_opencl: Iterable[FoundDevice]) -> list[FoundDevice]:
    """Each card once; the vendor's own word before OpenCL's.

    Within one platform of OpenCL no card is listed twice; over several it often is.
    """
    cards = list(by_vendor)
    platforms = groupby(
        (one for one in by_opencl if one.kind is DeviceKind.GPU), lambda one: one.platform
    )
    for _, listed in platforms:
        free = list(range(len(cards)))
        for device in listed:
            at = _match(device, cards, free)
            if at is None:
                cards.append(device)
            else:
                free.remove(at)
                cards[at] = _completed(cards[at], device)
    return cards


def _match(device: FoundDevice, cards: Sequence[FoundDevice], free: Iterable[int]) -> int | None:
    """Which of these it is: by its place, or by its model, or else by its vendor and its size."""
    for is_same in (_is_in_the_same_place, _is_of_one_model, _is_alike):
        for at in free:
            if is_same(device, cards[at]):
                return at
    return None


def _is_in_the_same_place(one: FoundDevice, other: FoundDevice) -> bool:
    return bool(one.slot) and one.slot == other.slot and not _in_other_domains(one, other)


def _is_of_one_model(one: FoundDevice, other: FoundDevice) -> bool:
    return not _apart(one, other) and one.model.lower() == other.model.lower()


def _is_alike(one: FoundDevice, other: FoundDevice) -> bool:
    """Kernel and OpenCL name the cards of some vendors differently."""
    small, large = sorted((one.memory_bytes, other.memory_bytes))
    sizes_agree = small == 0 or small / large > _MEMORY_AGREES
    return not _apart(one, other) and _maker(one) == _maker(other) and sizes_agree


def _apart(one: FoundDevice, other: FoundDevice) -> bool:
    """Known to be in different places."""
    if not one.slot or not other.slot:
        return False
    return one.slot != other.slot or _in_other_domains(one, other)


def _in_other_domains(one: FoundDevice, other: FoundDevice) -> bool:
    return None not in (one.domain, other.domain) and one.domain != other.domain


def _maker(device: FoundDevice) -> str:
    """Advanced Micro Devices, Inc. is AMD; NVIDIA Corporation is NVIDIA."""
    name = device.vendor.lower()
    if name.startswith("advanced micro devices"):
        return "amd"
    return name.replace("(r)", "").split()[0] if name.split() else ""


def _completed(card: FoundDevice, by_opencl: FoundDevice) -> FoundDevice:
    """What the vendor's own route does not tell."""
    return replace(
        card,
        memory_bytes=card.memory_bytes or by_opencl.memory_bytes,
        compute_units=card.compute_units or by_opencl.compute_units,
        driver=card.driver or by_opencl.driver,
        opencl_uuid=card.opencl_uuid or by_opencl.opencl_uuid,
    )
