"""A sandbox driver whose starts are timed."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from potluck.model.node import SandboxReport
from potluck.model.task import EndReason
from potluck.provider.sandbox.driver import (
    NO_HOOKS,
    Confinement,
    Driver,
    Output,
    RunHooks,
    RunOutcome,
)

# Called with the driver's name and the time until the command started; None: it never did.
ObserveStart = Callable[[str, float | None], None]


class TimedDriver:
    """Passes everything on. `images` is the name of the driver that runs images."""

    def __init__(self, driver: Driver, name: str, images: str, observe: ObserveStart) -> None:
        self.encloses_processes = driver.encloses_processes
        self._driver = driver
        self._name = name
        self._images = images
        self._observe = observe

    async def probe(self) -> SandboxReport:
        return await self._driver.probe()

    async def reap(self) -> None:
        await self._driver.reap()

    def held_bytes(self) -> int:
        return self._driver.held_bytes()

    async def run(
        self, confinement: Confinement, output: Output, hooks: RunHooks = NO_HOOKS
    ) -> RunOutcome:
        began, name = time.monotonic(), self._images if confinement.image else self._name
        has_started = False

        async def note_start() -> None:
            nonlocal has_started
            has_started = True
            self._observe(name, time.monotonic() - began)
            await hooks.started()

        try:
            noting = replace(hooks, started=note_start)
            outcome = await self._driver.run(confinement, output, noting)
        except Exception:
            self._observe_failure(name, has_started)
            raise
        # A run that was stopped before its start did not fail.
        if outcome.reason is EndReason.SANDBOX_FAILED:
            self._observe_failure(name, has_started)
        return outcome

    def _observe_failure(self, name: str, has_started: bool) -> None:
        if not has_started:
            self._observe(name, None)
