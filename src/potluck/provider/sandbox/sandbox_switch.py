"""The duty that changes the sandbox of a running provider, when its owner names another one."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from potluck.model.error import PotluckError
from potluck.provider.announcement import Announce, TermsWrong
from potluck.provider.attempt.runner import Runner
from potluck.provider.control.handler import Office
from potluck.provider.execution import Workshop, sandbox_named

_AGAIN_SECONDS = 60.0
_WAITING = "Its node changes its sandbox when nothing runs."
_REFUSED = "The sandbox that its owner asks for does not work on its node."


class Refit(Struct, frozen=True):
    """What changing the sandbox asks of the rest of the provider. Sandboxes go by their names."""

    wanted: Callable[[], str]
    current: Callable[[], str]
    is_busy: Callable[[], bool]
    close: Callable[[str], None]  # takes nothing new, with a sentence why; "": takes it again
    change: Callable[[str], Awaitable[bool]]  # whether that sandbox works here


async def suit_sandbox(refit: Refit, interval_seconds: float) -> None:
    """Changes the sandbox when its owner names another one and nothing runs any more, unless the
    owner has taken that back by then. Where it does not work nothing is taken until it does:
    whoever asks for walls does not go on without.
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


def refit_of(
    office: Office,
    announce: Announce,
    open_named: Callable[[str], Awaitable[Workshop]],
    runner_of: Callable[[Workshop], Runner],
) -> Refit:
    """As the rest of this provider does it."""

    def close(why: str) -> None:
        if not why:
            office.offer.misfit = None
        office.watch.refit(why)

    async def change(name: str) -> bool:
        """The server knows of it before anything runs in it."""
        try:
            workshop = await open_named(name)
        except PotluckError as error:
            if office.offer.misfit is None:
                announce(TermsWrong(error.detail, error.hint))
            office.offer.misfit = error
            return False
        await office.bench.use(runner_of(workshop))
        office.offer.sandbox, office.offer.containers = workshop.report, workshop.containers
        office.offer.told.change()
        await office.offer.told.until_known()
        return True

    return Refit(
        wanted=lambda: sandbox_named(office.settings, office.rules.limits.sandbox),
        current=lambda: office.offer.sandbox.driver,
        is_busy=lambda: bool(office.bench.busy()),
        close=close,
        change=change,
    )
