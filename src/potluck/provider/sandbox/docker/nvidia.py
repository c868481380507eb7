"""NVIDIA's cards in images: by way of its container toolkit, which puts the driver's files there.

Three times in a year a crafted image has escaped through that toolkit (CVE-2024-0132,
CVE-2025-23359, CVE-2025-23266), so one before 1.17.8 is refused. It runs as root beside the
container and has been steered by the container's own variables: a task's never reach the engine
(`first` sets them), and of the image's own those that a loader or the toolkit obeys do not either.
"""

import asyncio
import re
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Sequence

from potluck.model.error import SandboxUnavailable
from potluck.provider.sandbox.driver import Mount

_OLDEST = (1, 17, 8)
_PROGRAMS = ("nvidia-ctk", "nvidia-container-cli")
_VERSION = re.compile(r"version:?\s*v?(\d+)\.(\d+)\.(\d+)", re.IGNORECASE)
_STEERING = re.compile(r"LD_|GLIBC_TUNABLES$|NVIDIA_|GCONV_PATH$")
_SECONDS = 10.0


def blank_steering_variables(variables: Iterable[str]) -> list[str]:
    """For those that an image brings along, as the engine is to know them: empty."""
    names = (each.partition("=")[0] for each in variables)
    return [f"{name}=" for name in names if _STEERING.match(name)]


def wants_cards(nodes: Sequence[Mount]) -> bool:
    return any(node.target.startswith("/dev/nvidia") for node in nodes)


def device_request(uuids: str) -> dict[str, object]:
    """As the engine is told of it; it passes it on to the toolkit."""
    return {
        "Driver": "nvidia",
        "DeviceIDs": uuids.split(","),
        "Capabilities": [["gpu", "compute", "utility"]],
    }


def check_toolkit(said: str | None) -> None:
    """By what one of its programs says of its version."""
    found = _VERSION.search(said or "")
    oldest = ".".join(map(str, _OLDEST))
    if found is None:
        raise SandboxUnavailable(
            "Images can not use NVIDIA's cards here: its container toolkit is not installed.",
            f"Install nvidia-container-toolkit {oldest} or later.",
        )
    version = tuple(map(int, found.groups()))
    if version < _OLDEST:
        raise SandboxUnavailable(
            f"NVIDIA's container toolkit {'.'.join(found.groups())} lets images escape.",
            f"Install {oldest} or later.",
        )


async def toolkit_version() -> str | None:
    """What the toolkit says of itself; None where it is not there."""
    for program in _PROGRAMS:
        try:
            process = await asyncio.create_subprocess_exec(
                program, "--version", stdout=PIPE, stderr=DEVNULL
            )
        except (FileNotFoundError, PermissionError):
            continue
        try:
            async with asyncio.timeout(_SECONDS):
                said, _ = await process.communicate()
                return said.decode(errors="replace")
        except TimeoutError:
            continue
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return None
