"""Who was seen at a device or at the machine, from look to look."""

from collections.abc import Mapping

import pytest

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.terms import DeviceTerms
from potluck.provider.detect.sampler import Sampler
from potluck.provider.detect.types import Sample
from potluck.provider.owner import observations
from potluck.provider.owner.observations import Observations
from potluck.provider.owner.presence import Presence

CARD = DeviceDescription(DeviceKind.GPU, "card", "NVIDIA", "L4", 2**34)
PROCESSOR = DeviceDescription(DeviceKind.CPU, "cpu", "Intel", "Xeon", 2**34)
WHEN_IDLE = {"card": DeviceTerms(idle_minutes=10), "cpu": DeviceTerms(idle_minutes=10)}
BUSY, IDLE = Sample(utilisation_percent=90.0), Sample(utilisation_percent=1.0)


class Room(Sampler):
    """Two devices, what a driver says of them, and when somebody was last seen there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__({})
        self.said = {"card": IDLE, "cpu": IDLE}
        self.idle_seconds: float | None = None
        self.used: set[str] = set()
        self.seen = Observations((CARD, PROCESSOR), self)
        monkeypatch.setattr(observations, "look", self._presence)

    async def sample(self) -> Mapping[str, Sample]:
        return self.said

    async def _presence(self) -> Presence:
        return Presence(self.idle_seconds)

    async def look(self, **samples: Sample) -> dict[str, bool]:
        """Which devices somebody else is said to use just now."""
        self.said = {"card": IDLE, "cpu": IDLE} | samples
        await self.seen.look(WHEN_IDLE, lambda: self.used)
        unused = {uuid: self.seen.unused_seconds(uuid) for uuid in self.said}
        return {uuid: seconds is not None and seconds < 5 for uuid, seconds in unused.items()}


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    return Room(monkeypatch)


NOBODY = {"card": False, "cpu": False}


async def test_the_first_observation_counts_as_our_use(room: Room) -> None:
    was_known = room.seen.is_use_known
    assert await room.look(cpu=BUSY) == NOBODY
    assert (was_known, room.seen.is_use_known) == (False, True)
    assert await room.look(cpu=BUSY) == {"card": False, "cpu": True}


async def test_use_by_our_tasks_since_the_last_observation_is_not_foreign(room: Room) -> None:
    await room.look()
    room.used = {"card"}
    assert await room.look(card=BUSY, cpu=BUSY) == NOBODY, "a task keeps the processor busy, too"
    room.used = set()
    assert await room.look(card=BUSY) == {"card": True, "cpu": False}


async def test_measuring_is_our_own_until_the_look_after(room: Room) -> None:
    await room.look()
    with room.seen.own_doing("card"):
        assert await room.look(card=BUSY) == NOBODY
    assert await room.look(card=BUSY) == NOBODY, "it ended since the last look"
    assert await room.look(card=BUSY) == {"card": True, "cpu": False}


async def test_a_seen_owner_is_kept_when_presence_is_unknown(room: Room) -> None:
    room.idle_seconds = 0.0
    assert await room.look() == {"card": True, "cpu": True}
    for later in (None, 9000.0):
        room.idle_seconds = later
        assert await room.look() == {"card": True, "cpu": True}
