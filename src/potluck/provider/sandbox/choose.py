"""Which sandbox this machine gets, by the name that its owner says, found out by trying.

What needs an image runs in containers, also where all else runs in bubblewrap, as long as there is
an engine on this machine that works; that there is none keeps nobody from providing.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from potluck.model.error import PotluckError, SandboxUnavailable
from potluck.model.node import SandboxReport
from potluck.provider.sandbox.docker.work_directory import DIRECTORY, remove_all
from potluck.provider.sandbox.driver import (
    NO_ERRAND,
    Companion,
    Confinement,
    Driver,
    Errand,
    Output,
    RunOutcome,
    Started,
    StopRequest,
    unnoticed,
)
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver


class WithImages:
    """Runs in `images` what names an image, and all else in `plain`."""

    def __init__(self, plain: Driver, images: Driver | None, directory: Path) -> None:
        self.encloses_processes = plain.encloses_processes
        self._plain = plain
        self._images = images
        self._directory = directory

    async def probe(self) -> SandboxReport:
        return await self._plain.probe()

    async def run(
        self,
        confinement: Confinement,
        output: Output,
        started: Started = unnoticed,
        companion: Companion | None = None,
        recall: StopRequest | None = None,
        errand: Errand = NO_ERRAND,
    ) -> RunOutcome:
        driver = self._plain if confinement.image is None else self._images
        if driver is None:
            raise SandboxUnavailable("This node has no container engine, so it runs no images.")
        return await driver.run(confinement, output, started, companion, recall, errand)

    async def reap(self) -> None:
        """Where an earlier life had an engine and this one has none, what its runs worked in goes
        all the same: it may be in memory."""
        await self._plain.reap()
        if self._images is not None:
            await self._images.reap()
        else:
            await asyncio.to_thread(remove_all, self._directory / DIRECTORY)


_IN_CONTAINERS = ("docker", "runsc")
_PROBE_SECONDS = 30.0


class DriverSite(Struct, frozen=True):
    """Where a driver keeps what it needs, whose it is, and how an engine may be used."""

    directory: Path
    node_name: str
    docker_url: str = ""
    may_pull: Callable[[], bool] = lambda: False


class Chosen(Struct, frozen=True):
    driver: Driver
    report: SandboxReport
    containers: SandboxReport | None = None  # where images are run, if not in the driver itself


async def choose(place: DriverSite, sandbox: str) -> Chosen:
    """SandboxUnavailable says why it does not work, and what helps."""
    driver = _driver(place, sandbox)
    if sandbox == "none":
        return Chosen(WithImages(driver, None, place.directory), await driver.probe())
    if sandbox in _IN_CONTAINERS:
        return Chosen(driver, await driver.probe())
    report, beside = await asyncio.gather(_probe(driver, place), _beside(place))
    images, containers = beside or (None, None)
    return Chosen(WithImages(driver, images, place.directory), report, containers)


def _driver(place: DriverSite, sandbox: str) -> Driver:
    if sandbox == "none":
        return UnconfinedDriver(place.directory, place.node_name)
    if sys.platform != "linux":
        raise SandboxUnavailable(
            f"There is no sandbox for this system ({sys.platform}) yet.",
            "Provide from Linux, or start with --unsafe-no-sandbox to run your own tasks only.",
        )
    # These import what only Linux has.
    if sandbox in _IN_CONTAINERS:
        return _containers(place, "runsc" if sandbox == "runsc" else None)
    from potluck.provider.sandbox.bubblewrap.bwrap import BubblewrapDriver

    return BubblewrapDriver(place.directory, place.node_name)


def _containers(place: DriverSite, runtime: str | None) -> Driver:
    from potluck.provider.sandbox.docker.docker import DockerDriver
    from potluck.provider.sandbox.docker.engine import require_socket

    socket = require_socket(place.docker_url)
    return DockerDriver(place.directory, place.node_name, socket, runtime, place.may_pull)


async def _probe(driver: Driver, place: DriverSite) -> SandboxReport:
    from potluck.provider.sandbox.docker.engine import find_socket

    try:
        return await driver.probe()
    except SandboxUnavailable as unavailable:
        if find_socket(place.docker_url) is None:
            raise
        hint = "Or run everything in containers: `potluck provider set sandbox=docker`."
        raise _also(unavailable, hint) from unavailable


async def _beside(place: DriverSite) -> tuple[Driver, SandboxReport] | None:
    try:
        driver = _containers(place, None)
        async with asyncio.timeout(_PROBE_SECONDS):
            return driver, await driver.probe()
    except PotluckError as error:
        _miss(place, error)
    except TimeoutError:
        late = f"The container engine did not answer within {_PROBE_SECONDS:g} s."
        _miss(place, SandboxUnavailable(late, "Start it again."))
    return None


def _miss(place: DriverSite, error: PotluckError) -> None:
    """Raises it, unless an engine was only looked for in the usual places."""
    if place.docker_url:
        hint = "Or take POTLUCK_PROVIDER_DOCKER_URL away: then images are not run here."
        raise _also(error, hint) from error


def _also(error: PotluckError, hint: str) -> SandboxUnavailable:
    return SandboxUnavailable(error.detail, f"{error.hint} {hint}".strip())
