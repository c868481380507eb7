"""Puts the answers of all routes together: each card once, and a CPU where there is no card."""

import asyncio
from pathlib import Path

import msgspec

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.terms import DeviceTerms
from potluck.provider.detect import cpu, nvidia, opencl
from potluck.provider.detect.found import FoundDevice, stable_uuid

MOST_DEVICES = 64


async def detect_devices(
    data_directory: Path, timeout_seconds: float, price_micro_per_hour: int = 0
) -> tuple[DeviceDescription, ...]:
    """What this node offers. At least one device, and never one card twice."""
    by_vendor, by_opencl = await asyncio.gather(
        nvidia.find(timeout_seconds), opencl.find(timeout_seconds)
    )
    chosen = choose(by_vendor, by_opencl, cpu.find())
    described = (_describe(one, data_directory, price_micro_per_hour) for one in chosen)
    # Two identical cards without uuid and bus address can not be told apart; they count as one.
    return tuple({one.uuid: one for one in described}.values())[:MOST_DEVICES]


def choose(
    by_vendor: list[FoundDevice], by_opencl: list[FoundDevice], processor: FoundDevice
) -> list[FoundDevice]:
    """The cards, the vendor's own word before OpenCL's; without any, the CPU."""
    cards = list(by_vendor)
    for device in by_opencl:
        if device.kind is DeviceKind.GPU and not any(_is_same(device, card) for card in cards):
            cards.append(device)
    return cards or [_through_opencl(processor, by_opencl)]


def _through_opencl(processor: FoundDevice, by_opencl: list[FoundDevice]) -> FoundDevice:
    """The same processor, which tasks can also reach through OpenCL if it has a driver for that.

    The driver's own name for it is odd, and its memory is what happens to be free.
    """
    for device in by_opencl:
        if device.kind is DeviceKind.CPU:
            return msgspec.structs.replace(
                processor, interface=device.interface, driver=device.driver
            )
    return processor


def _is_same(one: FoundDevice, other: FoundDevice) -> bool:
    if one.slot and other.slot:
        return one.slot == other.slot
    return one.model.lower() == other.model.lower()


def _describe(device: FoundDevice, data_directory: Path, price_micro: int) -> DeviceDescription:
    # Every provider on a machine has the same CPU; each data directory offers it as its own.
    salt = str(data_directory) if device.kind is DeviceKind.CPU else ""
    return DeviceDescription(
        kind=device.kind,
        uuid=stable_uuid(device, salt),
        vendor=device.vendor,
        model=device.model,
        memory_bytes=device.memory_bytes,
        compute_units=device.compute_units,
        driver=device.driver,
        interface=device.interface,
        compute_capability=device.compute_capability,
        terms=DeviceTerms(price_micro_per_hour=price_micro),
    )
