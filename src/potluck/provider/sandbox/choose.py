"""Which sandbox this machine gets: the strongest that works, found out by trying."""

import sys
from pathlib import Path

from potluck.model.error import SandboxUnavailable
from potluck.model.node import SandboxReport
from potluck.provider.sandbox.driver import Driver
from potluck.provider.sandbox.unconfined import UnconfinedDriver


async def choose(
    state_directory: Path, node_name: str, unsafe_no_sandbox: bool
) -> tuple[Driver, SandboxReport]:
    """The driver and what it enforces; SandboxUnavailable says why there is none and what helps."""
    driver = _driver(state_directory, node_name, unsafe_no_sandbox)
    return driver, await driver.probe()


def _driver(state_directory: Path, node_name: str, unsafe_no_sandbox: bool) -> Driver:
    if unsafe_no_sandbox:
        return UnconfinedDriver(state_directory, node_name)
    if sys.platform != "linux":
        raise SandboxUnavailable(
            f"There is no sandbox for this system ({sys.platform}) yet.",
            "Provide from Linux, or start with --unsafe-no-sandbox to run your own tasks only.",
        )
    from potluck.provider.sandbox.bwrap import BubblewrapDriver  # imports what only Linux has

    return BubblewrapDriver(state_directory, node_name)
