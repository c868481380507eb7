"""The GPUs of Macs, from `system_profiler`."""

import re

import msgspec
import psutil
from msgspec import Struct, field

from potluck.model.device import DeviceKind
from potluck.model.task import MIB
from potluck.provider.detect import plausible
from potluck.provider.detect.query_process import Unanswered, output_of
from potluck.provider.detect.report import RouteAnswer, RouteOutcome, answer_with
from potluck.provider.detect.types import FoundDevice, clean_name

_COMMAND = ("/usr/sbin/system_profiler", "-json", "SPDisplaysDataType")
_UNITS = {"MB": MIB, "GB": 1024 * MIB}


class _Graphics(Struct, frozen=True):
    name: str = field(name="_name", default="")
    model: str = field(name="sppci_model", default="")
    cores: str = field(name="sppci_cores", default="")
    vendor: str = field(name="spdisplays_vendor", default="")
    memory: str = field(name="spdisplays_vram", default="")
    older_memory: str = field(name="_spdisplays_vram", default="")


class _DisplayListing(Struct, frozen=True):
    graphics: tuple[_Graphics, ...] = field(name="SPDisplaysDataType", default=())


async def find(timeout_seconds: float) -> RouteAnswer:
    listing = await output_of(_COMMAND, timeout_seconds)
    return parse(listing, psutil.virtual_memory().total)


def parse(listing: str, machine_memory_bytes: int) -> RouteAnswer:
    try:
        graphics = msgspec.json.decode(listing, type=_DisplayListing).graphics
    except msgspec.DecodeError as error:
        raise Unanswered(RouteOutcome.FAILED, f"Its answer is unreadable: {error}.") from error
    return answer_with(
        tuple(_device(gpu, at, machine_memory_bytes) for at, gpu in enumerate(graphics))
    )


def _device(graphics: _Graphics, at: int, machine_memory_bytes: int) -> FoundDevice:
    """Apple's own GPUs share the machine's memory."""
    own = _memory_bytes(graphics.memory or graphics.older_memory)
    vendor = re.sub(r"^sppci_vendor_|\s*\(0x\w+\)$", "", graphics.vendor)
    return FoundDevice(
        kind=DeviceKind.GPU,
        vendor=clean_name(vendor),
        model=clean_name(graphics.model or graphics.name),
        memory_bytes=own or machine_memory_bytes,
        interface="metal",
        compute_units=int(graphics.cores) if re.fullmatch(r"\d{1,4}", graphics.cores) else 0,
        route="apple",
        ordinal=at,
    )


def _memory_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,9}) (MB|GB)", text.strip())
    size = int(match[1]) * _UNITS[match[2]] if match else 0
    return plausible.memory_bytes(size) or 0
