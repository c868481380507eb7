"""Puts the answers of all routes together: each card once, and a CPU where there is no card."""

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path

import msgspec

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.provider.detect import cpu, nvidia, opencl
from potluck.provider.detect.found import FoundDevice, stable_uuid
from potluck.provider.detect.tried import Detection, Outcome, Tried

MOST_DEVICES = 64


async def detect_devices(data_directory: Path, timeout_seconds: float) -> Detection:
    """What this node has. At least one device, never one card twice, and never an error."""
    (by_vendor, vendor), (by_opencl, other) = await asyncio.gather(
        _tried("nvidia", nvidia.find(timeout_seconds)),
        _tried("opencl", opencl.find(timeout_seconds)),
    )
    chosen = choose(by_vendor, by_opencl, cpu.find())
    # Two identical cards without uuid and bus address can not be told apart; they count as one.
    named = {stable_uuid(one, _salt(one, data_directory)): one for one in chosen[:MOST_DEVICES]}
    devices = tuple(_describe(uuid, device) for uuid, device in named.items())
    return Detection(devices, named, (vendor, other))


async def _tried(
    route: str, asked: Awaitable[list[FoundDevice]]
) -> tuple[list[FoundDevice], Tried]:
    began = time.monotonic()
    devices = await asked
    outcome = Outcome.FOUND if devices else Outcome.NOTHING
    seconds = time.monotonic() - began
    return devices, Tried(route, outcome, seconds=seconds, devices=len(devices))


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


def _salt(device: FoundDevice, data_directory: Path) -> str:
    """Every provider on a machine has the same CPU; each data directory offers it as its own."""
    return str(data_directory) if device.kind is DeviceKind.CPU else ""


def _describe(uuid: str, device: FoundDevice) -> DeviceDescription:
    return DeviceDescription(
        kind=device.kind,
        uuid=uuid,
        vendor=device.vendor,
        model=device.model,
        memory_bytes=device.memory_bytes,
        compute_units=device.compute_units,
        driver=device.driver,
        interface=device.interface,
        compute_capability=device.compute_capability,
        is_partition=device.is_partition,
        parent_uuid=device.parent_uuid,
        pcie=device.pcie,
        power_watts=device.power_watts,
    )
