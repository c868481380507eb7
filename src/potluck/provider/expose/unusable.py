"""Devices that a task could not use, though their driver reports them.

Such a device takes no work until a later look finds that it can be used: a device node may come
back when a driver is loaded, and every task would be lost on it until then.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

from potluck.model.error import SandboxUnavailable
from potluck.provider.expose.exposed import Exposed
from potluck.wire.provider import GrantedDevice

Show = Callable[[Sequence[GrantedDevice]], Awaitable[Exposed]]


class UnusableDevices:
    def __init__(self) -> None:
        self._problems: dict[str, tuple[GrantedDevice, str, Show]] = {}

    def note(self, granted: Iterable[GrantedDevice], problems: Sequence[str], again: Show) -> None:
        """What an attempt to show devices to a task has found, and how to look again."""
        for device in granted:
            if problems:
                self._problems[device.uuid] = (device, " ".join(problems), again)
            else:
                self._problems.pop(device.uuid, None)

    def why(self, uuid: str) -> str:
        """A sentence; empty if nothing is known against it."""
        _, problem, _ = self._problems.get(uuid, (None, "", None))
        return problem and f"Tasks cannot use it: {problem}"

    async def look_again(self) -> None:
        """At each device by itself: the problem may have been another one's of the same task."""
        for device, _, again in list(self._problems.values()):
            with suppress(SandboxUnavailable):  # its driver does not respond: nothing new is known
                await again([device])
