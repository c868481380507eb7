"""Inspects devices in a thread, since the files of a driver that hangs block, too.

The thread is detached: it takes no place in a pool, and shutdown does not wait for it. While it
runs, the same devices are not inspected again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from potluck.local.detached_thread import run_in_daemon_thread
from potluck.model.error import SandboxUnavailable
from potluck.provider.expose.exposed import Exposed
from potluck.wire.provider import GrantedDevice

_PATIENCE_SECONDS = 30.0


class ExposeFunctions(Struct, frozen=True):
    """How granted devices are exposed."""

    look: Callable[[Sequence[GrantedDevice]], Exposed]
    asks_drivers: Callable[[Sequence[GrantedDevice]], bool]  # whether `look` may block


class DeviceExposer:
    def __init__(self, show: ExposeFunctions) -> None:
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
                "A device is not usable: its driver does not respond."
            ) from error

    async def _shown(self, granted: Sequence[GrantedDevice]) -> Exposed:
        uuids = {device.uuid for device in granted}
        while before := [self._asked[uuid] for uuid in uuids if not self._is_back(uuid)]:
            await asyncio.wait(before)
        answer = asyncio.wrap_future(run_in_daemon_thread(partial(self._show.look, granted)))
        self._asked |= dict.fromkeys(uuids, answer)
        return await asyncio.shield(answer)

    def _is_back(self, uuid: str) -> bool:
        return uuid not in self._asked or self._asked[uuid].done()
