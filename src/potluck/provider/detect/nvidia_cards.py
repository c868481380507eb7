"""Lists NVIDIA cards and their MIG instances.

A card with an error does not hide the others. Of a card in MIG mode, the instances are offered.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from potluck.model.device import DeviceKind
from potluck.model.task import MIB
from potluck.provider.detect import plausible
from potluck.provider.detect.nvml import NOT_FOUND, Library, NvmlError
from potluck.provider.detect.types import FoundDevice, clean_name

_MOST_INSTANCES = 16
_MIG_IS_ON = 1


class Card(Struct, frozen=True):
    """A card or an instance, and its handles."""

    device: FoundDevice
    handle: Any
    whole: Any  # the card's own handle, also of an instance


class Cards(Struct, frozen=True):
    """All usable cards, and sentences about the others."""

    by_uuid: dict[str, Card]
    troubles: tuple[str, ...] = ()


def list_cards(library: Library) -> Cards:
    """For an open library. Raises NvmlError if it cannot count the cards."""
    count = library.must("nvmlDeviceGetCount")
    driver = clean_name(library.ask("nvmlSystemGetDriverVersion") or "")
    cards: dict[str, Card] = {}
    troubles = [] if count <= plausible.MOST_DEVICES else [f"NVML reports {count} cards."]
    for index in range(min(count, plausible.MOST_DEVICES)):
        try:
            offered = list(_offered(library, index, driver))
        except NvmlError as trouble:
            troubles.append(f"Card {index} is not offered: {trouble}.")
            continue
        if not offered:
            troubles.append(f"Card {index} is in MIG mode and has no instances to offer.")
        cards.update({card.device.uuid: card for card in offered})
    return Cards(cards, tuple(troubles))


def _offered(library: Library, index: int, driver: str) -> Iterator[Card]:
    handle = library.must("nvmlDeviceGetHandleByIndex", index)
    card = Card(_device(library, handle, driver), handle, handle)
    mode = library.ask("nvmlDeviceGetMigMode", handle)
    if mode and mode[0] == _MIG_IS_ON:
        yield from _instances(library, card)
    else:
        yield card


def _device(library: Library, handle: Any, driver: str) -> FoundDevice:
    """Raises NvmlError for a card without a uuid."""
    ask = library.ask
    limit_watts = plausible.watts((ask("nvmlDeviceGetPowerManagementLimit", handle) or 0) / 1_000)
    return FoundDevice(
        kind=DeviceKind.GPU,
        vendor="NVIDIA",
        model=clean_name(ask("nvmlDeviceGetName", handle) or ""),
        memory_bytes=_memory_bytes(ask("nvmlDeviceGetMemoryInfo", handle)),
        interface="cuda",
        driver=driver,
        uuid=clean_name(library.must("nvmlDeviceGetUUID", handle)),
        route="nvidia",
        compute_capability=plausible.capability(
            *(ask("nvmlDeviceGetCudaComputeCapability", handle) or ("", ""))
        ),
        bus_address=_address(ask("nvmlDeviceGetPciInfo", handle)),
        minor=plausible.count(ask("nvmlDeviceGetMinorNumber", handle)),
        pcie=plausible.pcie(
            ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        ),
        power_watts=round(limit_watts) if limit_watts else None,
    )


def _instances(library: Library, card: Card) -> Iterator[Card]:
    most = library.ask("nvmlDeviceGetMaxMigDeviceCount", card.handle) or 0
    for index in range(min(most, _MOST_INSTANCES)):
        try:
            handle = library.must("nvmlDeviceGetMigDeviceHandleByIndex", card.handle, index)
        except NvmlError as trouble:
            if trouble.code == NOT_FOUND:  # fewer instances than the maximum
                continue
            raise
        yield Card(_instance(library, handle, card.device), handle, card.handle)


def _instance(library: Library, handle: Any, card: FoundDevice) -> FoundDevice:
    ask = library.ask
    attributes = ask("nvmlDeviceGetAttributes_v2", handle)
    memory_bytes = plausible.memory_bytes(attributes.memorySizeMB * MIB) if attributes else None
    return replace(
        card,
        model=clean_name(ask("nvmlDeviceGetName", handle) or "", card.model),
        memory_bytes=memory_bytes or _memory_bytes(ask("nvmlDeviceGetMemoryInfo", handle)),
        compute_units=min(attributes.multiprocessorCount, 10_000) if attributes else 0,
        uuid=clean_name(library.must("nvmlDeviceGetUUID", handle)),
        power_watts=None,
        is_partition=True,
        parent_uuid=card.uuid,
        gpu_instance=plausible.count(ask("nvmlDeviceGetGpuInstanceId", handle)),
        compute_instance=plausible.count(ask("nvmlDeviceGetComputeInstanceId", handle)),
    )


def _memory_bytes(memory: Any) -> int:
    return (plausible.memory_bytes(memory.total) if memory else None) or 0


def _address(place: Any) -> str:
    """The function is always 0; NVML does not report it."""
    return f"{place.domain:04x}:{place.bus:02x}:{place.device:02x}.0" if place else ""
