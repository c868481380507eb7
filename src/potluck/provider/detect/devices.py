"""Puts the answers of all routes together: each card once, and a CPU where there is no card."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog
from msgspec.structs import replace

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.provider.detect import cpu
from potluck.provider.detect.dedupe import merged
from potluck.provider.detect.plausible import MOST_DEVICES
from potluck.provider.detect.query_process import Unanswered
from potluck.provider.detect.report import (
    Detection,
    RouteAnswer,
    RouteOutcome,
    RouteTrial,
)
from potluck.provider.detect.routes import Route, routes
from potluck.provider.detect.types import FoundDevice, stable_uuid

log = structlog.get_logger()


async def detect_devices(data_directory: Path, timeout_seconds: float) -> Detection:
    """What this node has. At least one device, never one card twice, and never an error."""
    ways = routes()
    asked = await asyncio.gather(*(_try(way, timeout_seconds) for way in ways.values()))
    answers = dict(zip(ways, (answer for answer, _ in asked), strict=True))
    by_opencl = answers["opencl"].devices
    by_vendor = [one for way, each in answers.items() if way != "opencl" for one in each.devices]
    cards = merged(by_vendor, by_opencl)
    reachable = [one for one in cards if not _is_out_of_reach(one)]
    tried = (
        _tried(way, answer, seconds, [one for one in cards if _is_out_of_reach(one)])
        for (way, answer), (_, seconds) in zip(answers.items(), asked, strict=True)
    )
    chosen = reachable or [through_opencl(cpu.find(), by_opencl)]
    named = {stable_uuid(one, _salt(one, data_directory)): one for one in chosen[:MOST_DEVICES]}
    devices = tuple(_describe(uuid, device) for uuid, device in named.items())
    return Detection(devices, named, tuple(tried))


def through_opencl(processor: FoundDevice, by_opencl: Iterable[FoundDevice]) -> FoundDevice:
    """The same processor, which tasks can also reach through OpenCL if it has a driver for that.

    The driver's own name for it is odd, and its memory is what happens to be free.
    """
    for device in by_opencl:
        if device.kind is DeviceKind.CPU:
            return replace(
                processor,
                interface=device.interface,
                driver=device.driver,
                opencl_uuid=device.opencl_uuid,
            )
    return processor


async def _try(way: Route, timeout_seconds: float) -> tuple[RouteAnswer, float]:
    began = time.monotonic()
    try:
        answer = await way(timeout_seconds)
    except Unanswered as error:
        answer = RouteAnswer(error.outcome, detail=error.detail, hint=_HINTS.get(error.outcome, ""))
    return answer, time.monotonic() - began


_HINTS = {
    RouteOutcome.TIMED_OUT: "A driver hangs; restart the machine, or read the kernel's log.",
    RouteOutcome.FAILED: "A driver or its library is broken; install it anew.",
}


def _is_out_of_reach(card: FoundDevice) -> bool:
    """A vendor's card that only OpenCL could reach, and OpenCL does not know it."""
    return card.interface == "opencl" and not card.opencl_uuid


def _tried(
    way: str, answer: RouteAnswer, seconds: float, out_of_reach: Sequence[FoundDevice]
) -> RouteTrial:
    """Told in the log too, where something is not as it should be."""
    detail, hint = answer.detail, answer.hint
    if unused := ", ".join(one.model for one in out_of_reach if one.route == way):
        detail = f"Not offered, because tasks could not compute on it: {unused}."
        hint = "Install ROCm, or the OpenCL driver of its vendor."
    if answer.outcome in (RouteOutcome.FAILED, RouteOutcome.TIMED_OUT) or unused:
        log.warning("devices may be missing", route=way, detail=detail, hint=hint)
    return RouteTrial(way, answer.outcome, detail, hint, round(seconds, 3), len(answer.devices))


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
