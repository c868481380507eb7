"""How much power devices may draw, where they can be told; at the end they are as they were."""

from collections.abc import Mapping

from potluck.model.terms import DeviceTerms
from potluck.provider.announcement import Announce, PowerRefused
from potluck.provider.detect.sampler import Sampler


class PowerCaps:
    """What was asked of each device so far."""

    def __init__(self, sampler: Sampler, announce: Announce) -> None:
        self._sampler = sampler
        self._announce = announce
        self._asked: dict[str, int] = {}

    async def apply(self, terms: Mapping[str, DeviceTerms]) -> None:
        """Asks for what has changed; a device that refuses is told of once."""
        for uuid, each in terms.items():
            if each.power_watts != self._asked.get(uuid):
                await self._ask(uuid, each.power_watts)

    async def release(self) -> None:
        for uuid in list(self._asked):
            await self._ask(uuid, None)

    async def _ask(self, uuid: str, watts: int | None) -> None:
        if watts is None:
            self._asked.pop(uuid, None)
        else:
            self._asked[uuid] = watts
        refusal = await self._sampler.set_power(uuid, watts)
        if refusal is not None:
            self._announce(PowerRefused(uuid, refusal))
