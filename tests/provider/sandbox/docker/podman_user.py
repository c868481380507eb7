"""What an ordinary user's provider does with Podman, in a process of its own.

    podman_user.py STATE_DIRECTORY

Prints a line for each step. The services end after a second without connections.
"""

import asyncio
import sys
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from potluck.provider.sandbox.choose import DriverSite, choose
from potluck.provider.sandbox.docker import podman_service
from potluck.provider.sandbox.docker.docker import DockerDriver
from potluck.provider.sandbox.docker.engine import Engine
from potluck.provider.sandbox.driver import make_trial
from tests.provider.sandbox.docker.image import BARE, layer

_LONGER_THAN_IDLE = ("/bin/sh", "-c", "sleep 2; echo done")


async def prove(directory: Path) -> None:
    selection = await choose(DriverSite(directory / "chosen", "test"), "bwrap")
    report = selection.containers
    assert report is not None
    print(selection.report.driver, report.notes[0].rpartition(" ")[0], report.user, flush=True)
    assert report.is_safe_for_strangers == (report.memory != "none" != report.processes)
    assert report.is_safe_for_strangers or "rootless Podman" in report.notes[1]

    podman = podman_service.find_podman()
    assert podman is not None
    service = podman_service.PodmanService(podman, directory / "own", idle_seconds=1)
    print(service.socket, flush=True)
    driver = DockerDriver(directory / "own", "test", service.socket)
    await driver.probe()
    await Engine(service.socket).import_image(layer(), BARE, "test=1")
    output = bytearray()
    run = replace(make_trial("test"), image=BARE, command=_LONGER_THAN_IDLE)
    outcome = await driver.run(run, partial(_collect, output))
    print(outcome.reason, output.decode().strip(), flush=True)
    while service.is_serving:
        await asyncio.sleep(0.02)
    print("idle", flush=True)
    await Engine(service.socket).facts()
    print("serving", flush=True)
    await asyncio.Event().wait()


async def _collect(output: bytearray, _: str, data: bytes) -> None:
    output.extend(data)


if __name__ == "__main__":
    asyncio.run(prove(Path(sys.argv[1])))
