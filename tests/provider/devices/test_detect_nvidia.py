"""NVIDIA's cards through NVML, for real: a stub of the library, and all that it may do to us."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from potluck.model.device import DeviceDescription, DeviceKind, Health
from potluck.provider.detect.devices import detect_devices
from potluck.provider.detect.query_process import Unanswered
from potluck.provider.detect.report import RouteAnswer, RouteOutcome, RouteTrial
from potluck.provider.detect.routes import NVML, may_be_here, report_unlisted_cards, routes
from potluck.provider.detect.sampler import Sampler
from potluck.provider.detect.types import FoundDevice, Sample
from tests.stubs.mixed_gpus import OFFERED, WHOLE, mixed_rig
from tests.stubs.nvml import GIB, Card, NvmlRig

SECONDS = 20.0
L4 = Card("GPU-l4", "NVIDIA L4", 24 * GIB)
T4 = Card("GPU-t4", "Tesla T4", 16 * GIB)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvmlRig:
    """Two cards."""
    nvml_rig = NvmlRig(tmp_path)
    for name, value in nvml_rig.environment.items():
        monkeypatch.setenv(name, value)
    nvml_rig.add(L4)
    nvml_rig.add(T4)
    return nvml_rig


@asynccontextmanager
async def looking(*devices: FoundDevice, seconds: float = SECONDS) -> AsyncIterator[Sampler]:
    sampler = Sampler({device.uuid: device for device in devices}, seconds)
    try:
        yield sampler
    finally:
        await sampler.close()


async def found() -> RouteAnswer:
    return await routes()["nvidia"](SECONDS)


async def test_eight_mixed_cards_are_described_and_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = mixed_rig(tmp_path)
    for name, value in rig.environment.items():
        monkeypatch.setenv(name, value)
    detection = await detect_devices(tmp_path, SECONDS)
    devices_by_uuid = {device.uuid: device for device in detection.devices}
    assert list(devices_by_uuid) == OFFERED, (
        "each once, the divided one by its parts, and no processor"
    )
    _check_cards(devices_by_uuid, detection.found)
    [nvidia_trial] = [trial for trial in detection.tried if trial.route == "nvidia"]
    _check_tried(nvidia_trial)
    async with looking(*detection.found.values()) as sampler:
        _check_samples(dict(await sampler.sample()))


def _check_cards(devices_by_uuid: dict[str, DeviceDescription], found_devices: object) -> None:
    for card in WHOLE:
        device = devices_by_uuid[card.uuid]
        assert (device.model, device.memory_bytes) == (card.name, card.memory)
        assert device.compute_capability == card.capability
        assert device.pcie == f"{card.pcie_generation}.0 x{card.pcie_width}"
        assert device.power_watts == card.power_limit // 1_000
        assert (device.driver, device.vendor, device.interface) == ("550.54.14", "NVIDIA", "cuda")
        assert not device.is_partition
    assert isinstance(found_devices, dict)
    assert found_devices["GPU-h100"].bus_address == "0001:17:00.0"
    assert [found_devices[uuid].minor for uuid in OFFERED] == [0, 2, 3, 4, 5, 6, 7, 7]
    part = devices_by_uuid["MIG-a100-2"]
    assert (part.is_partition, part.parent_uuid) == (True, "GPU-a100")
    assert (part.memory_bytes, part.compute_units, part.power_watts) == (20 * GIB, 14, None)
    assert (
        found_devices["MIG-a100-2"].gpu_instance,
        found_devices["MIG-a100-2"].compute_instance,
    ) == (2, 0)


def _check_tried(trial: RouteTrial) -> None:
    assert (trial.outcome, trial.devices) == (RouteOutcome.FOUND, 8)
    assert "Card 1 is not offered" in trial.detail and trial.hint


def _check_samples(samples: dict[str, Sample]) -> None:
    assert {sample.health for sample in samples.values()} == {Health.WELL}
    busy = samples["GPU-4090-2"]
    assert (busy.utilisation_percent, busy.temperature_celsius) == (97, 83)
    assert samples["GPU-l4"].memory_used_bytes == 3 * GIB
    assert samples["GPU-l4"].power_watts == 25
    assert samples["GPU-4090-1"].pids == (4242, 4243)
    assert samples["GPU-3060"].pids == ()
    assert samples["GPU-t4"].memory_errors == 2, "from before we looked: told, and no illness"
    assert samples["MIG-a100-1"].pids == (7002,), "each instance its own"
    assert samples["MIG-a100-2"].pids == (7001,)


async def test_a_card_falls_off_the_bus_and_comes_back(rig: NvmlRig) -> None:
    async with looking(*(await found()).devices) as sampler:
        healths = []
        for act in (None, rig.fall_off, None, None, rig.come_back, None, None):
            if act:
                act("GPU-t4")
            healths.append(
                {uuid: sample.health for uuid, sample in (await sampler.sample()).items()}
            )
        assert {health["GPU-l4"] for health in healths} == {Health.WELL}, "its neighbour is well"
        assert [health["GPU-t4"] for health in healths] == [
            Health.WELL,
            *[Health.LOST] * 4,  # it is looked for anew ever more seldom
            *[Health.WELL] * 2,
        ]


async def test_a_returning_card_is_found_also_by_a_new_process(rig: NvmlRig) -> None:
    """As to a process that was started because the one before it hung."""
    devices = (await found()).devices
    rig.fall_off("GPU-t4")
    async with looking(*devices) as sampler:
        assert (await sampler.sample())["GPU-t4"].health is Health.LOST
        rig.come_back("GPU-t4")
        healths = [(await sampler.sample())["GPU-t4"].health for _ in range(3)]
        assert healths[-1] is Health.WELL


async def test_a_card_that_vanishes_is_lost_and_says_so(rig: NvmlRig) -> None:
    async with looking(*(await found()).devices) as sampler:
        assert (await sampler.sample())["GPU-t4"].health is Health.WELL
        rig.say("GPU-t4", all="!15")
        rig.say_of_the_system(count=1)
        for _ in range(2):
            samples = await sampler.sample()
            assert samples["GPU-t4"].health is Health.LOST
            assert "Tesla T4" in samples["GPU-t4"].detail
        assert samples["GPU-l4"].health is Health.WELL


async def test_without_its_driver_every_card_is_lost(rig: NvmlRig) -> None:
    async with looking(*(await found()).devices) as sampler:
        rig.say_of_the_system(init="!9", count="!9")
        samples = await sampler.sample()
    assert {sample.health for sample in samples.values()} == {Health.LOST}


async def test_heat_and_errors_are_reported(rig: NvmlRig) -> None:
    rig.say("GPU-l4", ecc=5)
    async with looking(*(await found()).devices) as sampler:
        await sampler.sample()
        rig.say("GPU-l4", ecc=7)
        rig.say("GPU-t4", slowed=0x40, temperature=95)
        samples = await sampler.sample()
        assert samples["GPU-l4"].health is Health.MEMORY_ERRORS
        assert "2 new uncorrectable errors" in samples["GPU-l4"].detail
        assert (samples["GPU-t4"].health, samples["GPU-t4"].temperature_celsius) == (
            Health.THROTTLED,
            95,
        )
        rig.say("GPU-l4", ecc=0)  # it was reset
        rig.say("GPU-t4", slowed=0x4)  # a power limit that somebody has set is no illness
        well = await sampler.sample()
    assert {sample.health for sample in well.values()} == {Health.WELL}


async def test_a_power_limit_is_set_where_it_may_be(rig: NvmlRig) -> None:
    rig.say("GPU-t4", set_power="!4")
    async with looking(*(await found()).devices) as sampler:
        assert await sampler.set_power("GPU-l4", 220) is None
        assert rig.power_limit_watts("GPU-l4") == 220
        assert await sampler.set_power("GPU-l4", None) is None
        assert rig.power_limit_watts("GPU-l4") == 300, "as its vendor chose"
        assert "from 100 to 350 W" in (await sampler.set_power("GPU-l4", 20) or "")
        assert "root" in (await sampler.set_power("GPU-t4", 220) or "")
        assert await sampler.set_power("GPU-t4", 300) is None, "it is so already"


async def test_a_hanging_library_is_killed_and_queried_again(rig: NvmlRig) -> None:
    async with looking(*(await found()).devices, seconds=2.0) as sampler:
        await _answered(sampler, 40)
        rig.say("GPU-l4", temperature="hang")
        for expected in (Health.WELL, Health.WELL, Health.LOST):
            started = time.monotonic()
            samples = await sampler.sample()
            assert time.monotonic() - started < 5
            assert {sample.health for sample in samples.values()} == {expected}
            assert samples["GPU-l4"].temperature_celsius is None, "nothing is known of now"
        rig.say("GPU-l4", temperature=41)
        await _answered(sampler, 41)


async def _answered(sampler: Sampler, celsius: int) -> None:
    """However long a process takes to start while others are busy."""
    async with asyncio.timeout(3 * SECONDS):
        while (sample := (await sampler.sample())["GPU-l4"]).temperature_celsius != celsius:
            pass
    assert sample.health is Health.WELL


async def test_a_library_that_crashes_takes_nothing_down(rig: NvmlRig) -> None:
    async with looking(*(await found()).devices) as sampler:
        rig.say("GPU-t4", memory="crash")
        assert (await sampler.sample())["GPU-l4"].power_watts is None
        assert "SIGSEGV" in (await sampler.set_power("GPU-l4", 220) or "")
        with pytest.raises(Unanswered, match="SIGSEGV"):
            await found()
        rig.say("GPU-t4", memory=16 * GIB)
        assert (await sampler.sample())["GPU-l4"].power_watts == 25


async def test_lies_are_not_believed(rig: NvmlRig) -> None:
    rig.say(
        "GPU-l4",
        name="endless",
        memory=2**64 - 1,
        memory_used=2**64 - 1,
        temperature=4_000_000_000,
        utilisation=101,
        power=4_294_967_295,
        power_limit=4_294_967_295,
        capability="-1.99",
        pcie_generation=77,
        processes="lie 2000000000",
    )
    rig.say("GPU-t4", name="binary")
    route_answer = await found()
    first_device, two = route_answer.devices
    assert (first_device.model[:3], len(first_device.model) <= 200) == ("AAA", True)
    assert (first_device.memory_bytes, first_device.power_watts) == (0, None)
    assert (first_device.compute_capability, first_device.pcie) == (None, None)
    assert (two.model, two.memory_bytes) == ("unknown", 16 * GIB)
    async with looking(*route_answer.devices) as sampler:
        samples = await sampler.sample()
    assert samples["GPU-l4"] == Sample(memory_errors=0)
    assert samples["GPU-t4"].temperature_celsius == 40


async def test_a_million_cards_are_not_asked_for(rig: NvmlRig) -> None:
    rig.say_of_the_system(count=1_000_000)
    route_answer = await found()
    assert [device.uuid for device in route_answer.devices] == ["GPU-l4", "GPU-t4"]
    assert "1000000 cards" in route_answer.detail


async def test_an_old_driver_is_asked_for_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = NvmlRig(tmp_path, is_old=True)
    for name, value in rig.environment.items():
        monkeypatch.setenv(name, value)
    rig.add(L4)
    route_answer = await found()
    assert [device.uuid for device in route_answer.devices] == ["GPU-l4"]
    async with looking(*route_answer.devices) as sampler:
        rig.say("GPU-l4", slowed=0x40)
        sample = (await sampler.sample())["GPU-l4"]
    assert (sample.pids, sample.health) == (None, Health.THROTTLED)


TROUBLES = [
    ("!9", RouteOutcome.FAILED, "modprobe"),
    ("!18", RouteOutcome.FAILED, "restart"),
    ("!4", RouteOutcome.FAILED, "/dev/nvidia"),
    ("!999", RouteOutcome.FAILED, "nvidia-smi"),
]


@pytest.mark.parametrize(("problem", "outcome", "hint"), TROUBLES)
async def test_driver_problems_are_reported_with_a_fix(
    rig: NvmlRig, problem: str, outcome: RouteOutcome, hint: str
) -> None:
    rig.say_of_the_system(init=problem)
    route_answer = await found()
    assert (route_answer.outcome, route_answer.devices) == (outcome, ())
    assert hint in route_answer.hint and route_answer.detail


async def test_a_machine_without_the_library_has_no_such_cards() -> None:
    route_answer = await found()
    if route_answer.outcome is RouteOutcome.FOUND:
        pytest.skip("this machine has an NVIDIA card")
    assert route_answer.outcome in (RouteOutcome.MISSING, RouteOutcome.FAILED)


async def test_a_missing_library_is_reported_as_such(
    rig: NvmlRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH")
    if may_be_here(NVML):
        pytest.skip("this machine has a library of its own")
    async with looking(
        FoundDevice(DeviceKind.GPU, "NVIDIA", "L4", 1, "cuda", uuid="GPU-l4", route="nvidia")
    ) as sampler:
        sample = (await sampler.sample())["GPU-l4"]
    assert sample.health is Health.LOST and "Not Found" in sample.detail


def test_a_card_that_only_the_kernel_lists_is_reported() -> None:
    missing = RouteAnswer(RouteOutcome.MISSING, detail="There is no library.")
    assert report_unlisted_cards(missing, []) == missing
    trial = report_unlisted_cards(missing, ["0000:01:00.0"])
    assert trial.outcome is RouteOutcome.FAILED
    assert "0000:01:00.0" in trial.detail and "Install NVIDIA's driver" in trial.hint


def test_a_library_is_found_without_loading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    assert may_be_here("libnone.so.1", cache), "who can say, without the loader's list"
    cache.write_bytes(b"\0libone.so.1\0/usr/lib/libone.so.1\0")
    assert may_be_here("libone.so.1", cache)
    assert not may_be_here("libnone.so.1", cache)
    (tmp_path / "libnone.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nonexistent:{tmp_path}")
    assert may_be_here("libnone.so.1", cache)


async def test_a_sampler_starts_nothing_where_there_is_no_such_device() -> None:
    sampler = Sampler({})
    assert await sampler.sample() == {}
    await sampler.close()


async def test_questions_are_answered_one_at_a_time(rig: NvmlRig) -> None:
    async with looking(*(await found()).devices) as sampler:
        reads = [sampler.sample() for _ in range(3)]
        *samples, refusal = await asyncio.gather(*reads, sampler.set_power("GPU-l4", 200))
        assert refusal is None
        assert len(samples) == 3 and all(isinstance(sample, dict) for sample in samples)
