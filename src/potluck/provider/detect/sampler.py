"""How the devices of this machine do, one look at all of them at a time."""

from collections.abc import Mapping

from potluck.model.device import DeviceKind
from potluck.provider.detect import cpu
from potluck.provider.detect.found import FoundDevice
from potluck.provider.detect.sample import Sample


class Sampler:
    """Looks at devices, and sets what can be set on them."""

    def __init__(self, found: Mapping[str, FoundDevice], timeout_seconds: float = 10.0) -> None:
        self._found = found
        self._timeout_seconds = timeout_seconds

    async def sample(self) -> Mapping[str, Sample]:
        """By uuid; of a device about which nothing can be told it says nothing but that."""
        return {
            uuid: cpu.sample() if device.kind is DeviceKind.CPU else Sample()
            for uuid, device in self._found.items()
        }

    async def set_power(self, uuid: str, watts: int | None) -> str | None:
        """None when it is so, else the sentence why not. No watts: as its vendor set it."""
        if watts is None:
            return None
        return f"{self._found[uuid].model} can not be told how much power to draw."

    async def close(self) -> None:
        """Ends what it started."""
