"""A driver for what needs no image, with another one beside it for what does."""

import asyncio
from pathlib import Path

from potluck.model.error import SandboxUnavailable
from potluck.model.node import SandboxReport
from potluck.provider.sandbox.docker.work_directory import DIRECTORY, remove_all
from potluck.provider.sandbox.driver import (
    NO_ERRAND,
    Companion,
    Confinement,
    Driver,
    Ended,
    Errand,
    Output,
    Recall,
    Started,
    unnoticed,
)


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
        recall: Recall | None = None,
        errand: Errand = NO_ERRAND,
    ) -> Ended:
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
