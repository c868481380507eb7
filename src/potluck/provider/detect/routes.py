"""All routes to devices on this system, each queried so that its failure is contained."""

import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from potluck.provider.detect import apple, opencl, sysfs
from potluck.provider.detect.query_process import Child
from potluck.provider.detect.question import Find
from potluck.provider.detect.report import RouteAnswer, RouteOutcome

NVML = "libnvidia-ml.so.1"
_LOADER_CACHE = Path("/etc/ld.so.cache")
_LIBRARY_PLACES = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
Route = Callable[[float], Awaitable[RouteAnswer]]


def routes() -> dict[str, Route]:
    """By name; vendors' own routes before OpenCL, which knows less about each device."""
    return {**_VENDORS.get(sys.platform, {}), "opencl": opencl.find}


def child_of(route: str) -> Child:
    """The child process for a vendor's library: one for each vendor, since they can conflict."""
    return Child(f"potluck.provider.detect.{route}")


async def _nvidia(timeout_seconds: float) -> RouteAnswer:
    return await _query("nvidia", timeout_seconds)


async def _nvidia_on_linux(timeout_seconds: float) -> RouteAnswer:
    if not may_be_here(NVML):
        return report_unlisted_cards(
            RouteAnswer(RouteOutcome.MISSING, detail=f"There is no {NVML}."), _nvidia_cards()
        )
    return report_unlisted_cards(await _nvidia(timeout_seconds), _nvidia_cards())


def may_be_here(name: str, cache: Path = _LOADER_CACHE) -> bool:
    """Whether this Linux has a library, without loading it: saves starting a child process.

    Also true if that cannot be known, as without the loader's cache.
    """
    named = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    if any((Path(place) / name).exists() for place in (*filter(None, named), *_LIBRARY_PLACES)):
        return True
    try:
        return name.encode() + b"\0" in cache.read_bytes()
    except OSError:
        return True


def _nvidia_cards() -> list[str]:
    return [card.name for card in sysfs.cards_of(sysfs.NVIDIA)]


def report_unlisted_cards(answer: RouteAnswer, on_the_bus: Sequence[str]) -> RouteAnswer:
    """Reports a card that the kernel lists and the library does not."""
    if answer.devices or not on_the_bus:
        return answer
    cards = ", ".join(on_the_bus)
    detail = f"There is an NVIDIA card ({cards}), but its driver does not work. {answer.detail}"
    hint = answer.hint or "Install NVIDIA's driver and restart the machine."
    return RouteAnswer(RouteOutcome.FAILED, detail=detail, hint=hint)


async def _amd(timeout_seconds: float) -> RouteAnswer:
    return await _query_if_on_bus("amd", sysfs.AMD, timeout_seconds)


async def _intel(timeout_seconds: float) -> RouteAnswer:
    return await _query_if_on_bus("intel", sysfs.INTEL, timeout_seconds)


async def _query_if_on_bus(route: str, vendor: int, timeout_seconds: float) -> RouteAnswer:
    """Starts no child process without a card on the bus."""
    if not sysfs.cards_of(vendor):
        return RouteAnswer(RouteOutcome.NOTHING, detail="The kernel lists none on the PCI bus.")
    return await _query(route, timeout_seconds)


async def _query(route: str, timeout_seconds: float) -> RouteAnswer:
    child = child_of(route)
    try:
        return await child.ask(Find(), RouteAnswer, timeout_seconds)
    finally:
        await child.close()


_VENDORS: dict[str, dict[str, Route]] = {
    "linux": {"nvidia": _nvidia_on_linux, "amd": _amd, "intel": _intel},
    "win32": {"nvidia": _nvidia},
    "darwin": {"apple": apple.find},
}
