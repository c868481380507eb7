"""Sets the owner's power limits on devices that support it, and restores the old ones at the end.

DATA/power.json keeps the previous limits, so a provider that was killed restores them at its next
start.
"""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog

from potluck.local.durable_files import write_atomically
from potluck.model.terms import DeviceTerms
from potluck.provider.announcement import Announce, PowerRefused
from potluck.provider.detect.sampler import Sampler
from potluck.provider.detect.types import FoundDevice

log = structlog.get_logger()

# For all devices together: the longest that a hanging library delays samples or the shutdown.
_PATIENCE_SECONDS = 15.0
# The interval of repeated requests: a refusal may have passed, and a reset loses the limit.
_AGAIN_SECONDS = 60.0


class PowerCaps:
    def __init__(
        self,
        sampler: Sampler,
        announce: Announce,
        devices: Mapping[str, FoundDevice],
        data_directory: Path,
    ) -> None:
        self._sampler = sampler
        self._announce = announce
        self._found = devices
        self._file = data_directory / "power.json"
        # The previous limits of devices that have ours now; None: the vendor's default.
        self._before = _saved_limits(self._file)
        self._asked: dict[str, tuple[int | None, float]] = {}
        self.refusals: dict[str, str] = {}  # of the current limits

    async def apply(self, terms: Mapping[str, DeviceTerms]) -> None:
        """Sets the limits that changed; announces a refusal once."""
        now = time.monotonic()
        limits = {uuid: device.power_watts for uuid, device in terms.items()}
        for uuid, watts in limits.items():
            if watts is None:
                self.refusals.pop(uuid, None)
        await self._ask({u: watts for u, watts in limits.items() if self._is_due(u, watts, now)})

    async def release(self) -> None:
        await self._ask({uuid: None for uuid in self._before if uuid in self._found})

    def _is_due(self, uuid: str, watts: int | None, now: float) -> bool:
        if watts is None and uuid not in self._before:
            return False
        asked_watts, at = self._asked.get(uuid, (None, -_AGAIN_SECONDS))
        return asked_watts != watts or now - at >= _AGAIN_SECONDS

    async def _ask(self, limits: Mapping[str, int | None]) -> None:
        new = {uuid for uuid, watts in limits.items() if watts is not None} - self._before.keys()
        self._keep({**self._before, **{uuid: self._found[uuid].power_watts for uuid in new}})
        asks = (self._set(uuid, watts, uuid in new) for uuid, watts in limits.items())
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await asyncio.gather(*asks)

    async def _set(self, uuid: str, watts: int | None, is_new: bool) -> None:
        self._asked[uuid] = watts, time.monotonic()
        limit = self._before[uuid] if watts is None else watts
        refusal = await self._sampler.set_power(uuid, limit)
        self._tell(uuid, refusal)
        is_as_before = refusal is None if watts is None else is_new and refusal is not None
        if is_as_before:
            self._keep({other: was for other, was in self._before.items() if other != uuid})

    def _tell(self, uuid: str, refusal: str | None) -> None:
        if refusal is None:
            self.refusals.pop(uuid, None)
        elif self.refusals.get(uuid) != refusal:
            self.refusals[uuid] = refusal
            self._announce(PowerRefused(uuid, refusal))

    def _keep(self, before: dict[str, int | None]) -> None:
        if before == self._before:
            return
        self._before = before
        try:
            if before:
                write_atomically(self._file, msgspec.json.encode(before))
            else:
                self._file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("power limits are not remembered", detail=str(error))


def _saved_limits(file: Path) -> dict[str, int | None]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, int | None])
    except (OSError, msgspec.DecodeError, UnicodeError):
        return {}
