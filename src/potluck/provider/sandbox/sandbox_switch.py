"""Switches the sandbox of a running provider when its owner configures another one."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from potluck.model.error import PotluckError
from potluck.provider.announcement import Announce, TermsWrong
from potluck.provider.attempt.runner import Runner
from potluck.provider.control.handler import CommandContext
from potluck.provider.execution import Execution, choose_sandbox_name

_AGAIN_SECONDS = 60.0
_WAITING = "Its node switches to another sandbox once nothing runs."
_REFUSED = "The sandbox that its owner configured does not work on its node."


class SandboxSwitch(Struct, frozen=True):
    """The provider's side of switching sandboxes, which are identified by name."""

    wanted: Callable[[], str]
    current: Callable[[], str]
    is_busy: Callable[[], bool]
    close: Callable[[str], None]  # accepts no new tasks, and why; "": accepts tasks again
    change: Callable[[str], Awaitable[bool]]  # returns whether that sandbox works here


async def switch_sandboxes(refit: SandboxSwitch, interval_seconds: float) -> None:
    """Switches once nothing runs, unless the owner has reverted the setting by then.

    If the configured sandbox does not work, the node accepts no tasks until it does: it never
    falls back to a weaker sandbox.
    """
    refused, refused_at = "", 0.0
    while True:
        await asyncio.sleep(interval_seconds)
        name = refit.wanted()
        if name == refit.current():
            refused = ""
            refit.close("")
            continue
        refit.close(_REFUSED if name == refused else _WAITING)
        is_too_soon = name == refused and time.monotonic() - refused_at < _AGAIN_SECONDS
        if is_too_soon or refit.is_busy():
            continue
        if not await refit.change(name):
            refused, refused_at = name, time.monotonic()


def make_sandbox_switch(
    office: CommandContext,
    announce: Announce,
    open_named: Callable[[str], Awaitable[Execution]],
    runner_of: Callable[[Execution], Runner],
) -> SandboxSwitch:
    def close(why: str) -> None:
        if not why:
            office.offer.misfit = None
        office.watch.refit(why)

    async def change(name: str) -> bool:
        """Reports the new sandbox to the server before anything runs in it."""
        try:
            workshop = await open_named(name)
        except PotluckError as error:
            if office.offer.misfit is None:
                announce(TermsWrong(error.detail, error.hint))
            office.offer.misfit = error
            return False
        await office.bench.use(runner_of(workshop))
        office.offer.sandbox, office.offer.containers = workshop.report, workshop.containers
        office.offer.held_bytes = workshop.driver.held_bytes
        office.offer.pythons = workshop.pythons
        office.offer.change_counter.change()
        await office.offer.change_counter.until_known()
        return True

    return SandboxSwitch(
        wanted=lambda: choose_sandbox_name(office.settings, office.rules.limits.sandbox),
        current=lambda: office.offer.sandbox.driver,
        is_busy=lambda: bool(office.bench.busy()),
        close=close,
        change=change,
    )
