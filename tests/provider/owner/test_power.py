"""Power limits: what is asked of cards, and that they have their own back."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceKind
from potluck.model.terms import DeviceTerms
from potluck.provider.announcement import Announcement, PowerRefused
from potluck.provider.detect.sampler import Sampler
from potluck.provider.detect.types import FoundDevice
from potluck.provider.owner import power as power_module
from potluck.provider.owner.power import PowerCaps

CARD = FoundDevice(DeviceKind.GPU, "NVIDIA", "L4", 2**34, "cuda", power_watts=250)
LIMITED, FREE = {"GPU-1": DeviceTerms(power_watts=120)}, {"GPU-1": DeviceTerms()}


class Cards(Sampler):
    """Cards with limits that can be set, or not."""

    def __init__(self, *uuids: str) -> None:
        self.found = dict.fromkeys(uuids, CARD)
        super().__init__(self.found)
        self.limits: dict[str, int | None] = dict.fromkeys(uuids, 250)
        self.refusal: str | None = None
        self.hang_seconds = 0.0
        self.asked = 0

    async def set_power(self, uuid: str, watts: int | None) -> str | None:
        self.asked += 1
        await asyncio.sleep(self.hang_seconds)
        if self.refusal is None:
            self.limits[uuid] = watts
        return self.refusal


class Owner:
    def __init__(self, directory: Path, *uuids: str) -> None:
        self.cards = Cards(*(uuids or ("GPU-1",)))
        self.announced: list[Announcement] = []
        self.directory = directory
        self.begin()

    def begin(self) -> None:
        """A provider's life; if the last one was killed, the cards are as it left them."""
        limits = self.cards.limits
        found_devices = {uuid: replace(CARD, power_watts=limits[uuid]) for uuid in limits}
        self.power = PowerCaps(self.cards, self.announced.append, found_devices, self.directory)

    @property
    def refused(self) -> list[str]:
        return [
            announcement.detail
            for announcement in self.announced
            if isinstance(announcement, PowerRefused)
        ]


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


async def test_a_power_limit_is_set_once_and_the_previous_one_restored(owner: Owner) -> None:
    await owner.power.apply(FREE)
    assert owner.cards.asked == 0
    for _ in range(2):
        await owner.power.apply(LIMITED)
    assert (owner.cards.limits, owner.cards.asked) == ({"GPU-1": 120}, 1)
    await owner.power.release()
    assert owner.cards.limits == {"GPU-1": 250}, "what its owner had set, not what its vendor chose"
    assert not (owner.directory / "power.json").exists()


@pytest.mark.parametrize("is_unsaid", [True, False])
async def test_a_killed_provider_gives_the_limit_back_later(owner: Owner, is_unsaid: bool) -> None:
    await owner.power.apply(LIMITED)
    owner.begin()
    await owner.power.apply(FREE if is_unsaid else LIMITED)
    assert owner.cards.limits == {"GPU-1": 250 if is_unsaid else 120}
    await owner.power.release()
    assert owner.cards.limits == {"GPU-1": 250}


async def test_a_refusal_is_reported_once_and_retried_later(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.cards.refusal = "Only root may."
    await owner.power.apply(LIMITED)
    assert owner.power.refusals == {"GPU-1": "Only root may."}
    assert not (owner.directory / "power.json").exists(), "there is nothing to give back"
    monkeypatch.setattr(power_module, "_AGAIN_SECONDS", 0.0)
    await owner.power.apply(LIMITED)
    assert (owner.refused, owner.cards.asked) == (["Only root may."], 2)
    await owner.power.apply(FREE)
    assert not owner.power.refusals, "nobody asks for it any more"
    owner.cards.refusal = None
    await owner.power.apply(LIMITED)
    assert owner.cards.limits == {"GPU-1": 120} and not owner.power.refusals


async def test_cards_that_hang_are_waited_for_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuids = [f"GPU-{number}" for number in range(8)]
    owner = Owner(tmp_path, *uuids)
    await owner.power.apply(dict.fromkeys(uuids, DeviceTerms(power_watts=120)))
    monkeypatch.setattr(power_module, "_PATIENCE_SECONDS", 0.1)
    owner.cards.hang_seconds = 5.0
    async with asyncio.timeout(2):
        await owner.power.release()
    owner.cards.hang_seconds = 0.0
    owner.begin()
    await owner.power.release()
    assert set(owner.cards.limits.values()) == {250}, "what was not given back is known later"
