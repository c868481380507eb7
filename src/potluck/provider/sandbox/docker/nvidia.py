"""NVIDIA devices in images, through NVIDIA's container toolkit, which mounts the driver's files.

Crafted images have escaped through the toolkit three times in a year (CVE-2024-0132,
CVE-2025-23359, CVE-2025-23266), so versions before 1.17.8 are refused. It runs as root outside the
container and can be steered by the container's variables. So the engine never gets a task's
variables (`container_init` sets them), and the image's variables that a loader or the toolkit obeys
are blanked.
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
    """Empty values for the image's variables that steer a loader or the toolkit."""
    names = (variable.partition("=")[0] for variable in variables)
    return [f"{name}=" for name in names if _STEERING.match(name)]


def wants_cards(nodes: Sequence[Mount]) -> bool:
    return any(node.target.startswith("/dev/nvidia") for node in nodes)


def device_request(uuids: str) -> dict[str, object]:
    """The engine's device request, which it passes on to the toolkit."""
    return {
        "Driver": "nvidia",
        "DeviceIDs": uuids.split(","),
        "Capabilities": [["gpu", "compute", "utility"]],
    }


def check_toolkit(output: str | None) -> None:
    """Checks the output of a toolkit program's `--version`."""
    match = _VERSION.search(output or "")
    oldest = ".".join(map(str, _OLDEST))
    if match is None:
        raise SandboxUnavailable(
            "Images cannot use NVIDIA devices here: the container toolkit is not installed.",
            f"Install nvidia-container-toolkit {oldest} or later.",
        )
    version = tuple(map(int, match.groups()))
    if version < _OLDEST:
        raise SandboxUnavailable(
            f"NVIDIA's container toolkit {'.'.join(match.groups())} lets images escape.",
            f"Install {oldest} or later.",
        )


async def toolkit_version() -> str | None:
    """Output of a toolkit program's `--version`; None if none is installed."""
    for program in _PROGRAMS:
        try:
            process = await asyncio.create_subprocess_exec(
                program, "--version", stdout=PIPE, stderr=DEVNULL
            )
        except (FileNotFoundError, PermissionError):
            continue
        try:
            async with asyncio.timeout(_SECONDS):
                output, _ = await process.communicate()
                return output.decode(errors="replace")
        except TimeoutError:
            continue
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return None
