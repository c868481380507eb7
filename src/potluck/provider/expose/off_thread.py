"""Looks for what is to be shown without anybody having to wait for it.

Files of a driver that hangs hang with it. So where a driver has to be asked, that is a thread of
its own, which takes no other's place, and for which the end of the provider does not wait; and
until it is back nobody asks for the same devices again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from potluck.local.detached_thread import in_own_thread
from potluck.model.error import SandboxUnavailable
from potluck.provider.expose.exposed import Exposed
from potluck.wire.provider import GrantedDevice

_PATIENCE_SECONDS = 30.0


class Show(Struct, frozen=True):
    """What a task is shown of the devices that it was granted."""

    look: Callable[[Sequence[GrantedDevice]], Exposed]
    asks_drivers: Callable[[Sequence[GrantedDevice]], bool]  # whether that may take for ever


class Aside:
    """Shows devices, or says that their driver does not answer."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._asked: dict[str, asyncio.Future[Exposed]] = {}

    async def show(self, granted: Sequence[GrantedDevice]) -> Exposed:
        if not self._show.asks_drivers(granted):
            return self._show.look(granted)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._shown(granted)
        except TimeoutError as error:
            raise SandboxUnavailable(
                "A device can not be shown: the files of its driver do not answer."
            ) from error

    async def _shown(self, granted: Sequence[GrantedDevice]) -> Exposed:
        uuids = {one.uuid for one in granted}
        while before := [self._asked[uuid] for uuid in uuids if not self._is_back(uuid)]:
            await asyncio.wait(before)
        answer = asyncio.wrap_future(in_own_thread(partial(self._show.look, granted)))
        self._asked |= dict.fromkeys(uuids, answer)
        return await asyncio.shield(answer)

    def _is_back(self, uuid: str) -> bool:
        return uuid not in self._asked or self._asked[uuid].done()
