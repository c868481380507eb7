"""Opens the sandbox that the owner names, and probes it.

Tasks with an image run in containers if this machine has a working engine, also where all other
tasks run in bubblewrap. An engine is not required.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from potluck.model.error import PotluckError, SandboxUnavailable
from potluck.model.node import SandboxReport
from potluck.provider.sandbox.docker.work_directory import (
    CONTAINER_DISKS,
    DIRECTORY,
    remove_run_directories,
)
from potluck.provider.sandbox.driver import (
    NO_HOOKS,
    Confinement,
    Driver,
    Output,
    RunHooks,
    RunOutcome,
)
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver
from potluck.provider.sandbox.work_disk import remove_leftovers


class WithImages:
    """Runs tasks with an image in `images`, all others in `plain`."""

    def __init__(self, plain: Driver, images: Driver | None, directory: Path) -> None:
        self.encloses_processes = plain.encloses_processes
        self._plain = plain
        self._images = images
        self._directory = directory

    async def probe(self) -> SandboxReport:
        return await self._plain.probe()

    async def run(
        self, confinement: Confinement, output: Output, hooks: RunHooks = NO_HOOKS
    ) -> RunOutcome:
        driver = self._plain if confinement.image is None else self._images
        if driver is None:
            raise SandboxUnavailable("This node has no container engine, so it runs no images.")
        return await driver.run(confinement, output, hooks)

    async def reap(self) -> None:
        """Also removes container work directories, which may use memory, if the engine is gone."""
        await self._plain.reap()
        if self._images is not None:
            await self._images.reap()
        else:
            await asyncio.to_thread(remove_run_directories, self._directory / DIRECTORY)
            await asyncio.to_thread(remove_leftovers, self._directory / CONTAINER_DISKS)

    def held_bytes(self) -> int:
        images = 0 if self._images is None else self._images.held_bytes()
        return self._plain.held_bytes() + images


_IN_CONTAINERS = ("docker", "runsc")
_PROBE_SECONDS = 30.0


class DriverSite(Struct, frozen=True):
    """A driver's state directory and node, and how it may use a container engine."""

    directory: Path
    node_name: str
    docker_url: str = ""
    may_pull: Callable[[], bool] = lambda: False
    may_others_use_disk: Callable[[], bool] = lambda: False


class ChosenSandbox(Struct, frozen=True):
    driver: Driver
    report: SandboxReport
    containers: SandboxReport | None = None  # of the driver for images, if it is another one


async def choose(place: DriverSite, sandbox: str) -> ChosenSandbox:
    """Raises SandboxUnavailable, with the cause and a hint."""
    driver = _make_driver(place, sandbox)
    if sandbox == "none":
        return ChosenSandbox(WithImages(driver, None, place.directory), await driver.probe())
    if sandbox in _IN_CONTAINERS:
        return ChosenSandbox(driver, await driver.probe())
    report, found = await asyncio.gather(_probe(driver, place), _find_containers(place))
    images, containers = found or (None, None)
    return ChosenSandbox(WithImages(driver, images, place.directory), report, containers)


def _make_driver(place: DriverSite, sandbox: str) -> Driver:
    if sandbox == "none":
        return UnconfinedDriver(place.directory, place.node_name)
    if sys.platform != "linux":
        raise SandboxUnavailable(
            f"Potluck has no sandbox for this system ({sys.platform}) yet.",
            "Provide from Linux, or start with --unsafe-no-sandbox to run your own tasks only.",
        )
    # Imported here because they need Linux.
    if sandbox in _IN_CONTAINERS:
        return _docker_driver(place, "runsc" if sandbox == "runsc" else None)
    from potluck.provider.sandbox.bubblewrap.bwrap import BubblewrapDriver

    return BubblewrapDriver(
        place.directory, place.node_name, may_others_use_disk=place.may_others_use_disk
    )


def _docker_driver(place: DriverSite, runtime: str | None) -> Driver:
    from potluck.provider.sandbox.docker.docker import DockerDriver
    from potluck.provider.sandbox.docker.engine import find_socket, require_socket

    socket = find_socket(place.docker_url) or _serve_podman(place.directory)
    return DockerDriver(
        *(place.directory, place.node_name, socket or require_socket(""), runtime, place.may_pull),
        may_others_use_disk=place.may_others_use_disk,
    )


def _serve_podman(directory: Path) -> Path | None:
    from potluck.provider.sandbox.docker.podman_service import find_podman, serve_podman

    podman = find_podman()
    return None if podman is None else serve_podman(podman, directory).socket


async def _probe(driver: Driver, place: DriverSite) -> SandboxReport:
    from potluck.provider.sandbox.docker.engine import find_socket

    try:
        return await driver.probe()
    except SandboxUnavailable as unavailable:
        if find_socket(place.docker_url) is None:
            raise
        hint = "Or run everything in containers: `potluck provider set sandbox=docker`."
        raise _with_hint(unavailable, hint) from unavailable


async def _find_containers(place: DriverSite) -> tuple[Driver, SandboxReport] | None:
    try:
        driver = _docker_driver(place, None)
        async with asyncio.timeout(_PROBE_SECONDS):
            return driver, await driver.probe()
    except PotluckError as error:
        _raise_if_configured(place, error)
    except TimeoutError:
        detail = f"The container engine did not answer within {_PROBE_SECONDS:g} s."
        _raise_if_configured(place, SandboxUnavailable(detail, "Restart it."))
    return None


def _raise_if_configured(place: DriverSite, error: PotluckError) -> None:
    """Ignores the error if the owner did not configure an engine."""
    if place.docker_url:
        hint = "Or unset POTLUCK_PROVIDER_DOCKER_URL; then this node runs no images."
        raise _with_hint(error, hint) from error


def _with_hint(error: PotluckError, hint: str) -> SandboxUnavailable:
    return SandboxUnavailable(error.detail, f"{error.hint} {hint}".strip())
