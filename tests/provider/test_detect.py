"""Devices: each card once, a CPU where there is none, and vendors that can not hurt us."""

import asyncio
import sys
import time
from pathlib import Path

import msgspec
import pytest

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.provider.detect import cpu, nvidia, opencl
from potluck.provider.detect.child import output_of
from potluck.provider.detect.devices import choose, detect_devices
from potluck.provider.detect.found import FoundDevice, stable_uuid, told
from potluck.wire.codec import decode_json, encode_json

CPU = cpu.find()
POCL = FoundDevice(
    DeviceKind.CPU, "GenuineIntel", "cpu-haswell", 2**33, "opencl", driver="PoCL 3.1"
)
CPU_BY_OPENCL = msgspec.structs.replace(CPU, interface="opencl", driver="PoCL 3.1")
CARD = FoundDevice(
    DeviceKind.GPU, "NVIDIA", "RTX 4090", 24 * 2**30, "cuda", uuid="GPU-1", bus_address="01:00.0"
)
SAME_CARD = FoundDevice(
    DeviceKind.GPU, "NVIDIA Corporation", "RTX 4090", 24 * 2**30, "opencl", bus_address="01:00.0"
)
OTHER_CARD = FoundDevice(
    DeviceKind.GPU, "AMD", "RX 7900", 24 * 2**30, "opencl", bus_address="0a:00.0"
)
UNPLACED_CARD = FoundDevice(DeviceKind.GPU, "NVIDIA Corporation", "rtx 4090", 2**30, "opencl")

CHOICES = [
    ([], [], [CPU]),  # nothing but the processor: plain, and named a CPU
    ([], [POCL], [CPU_BY_OPENCL]),  # the processor through OpenCL is still a CPU
    ([CARD], [], [CARD]),
    ([CARD], [POCL], [CARD]),  # with a card, the processor is not offered
    ([CARD], [SAME_CARD], [CARD]),  # found by two routes, one device
    ([CARD], [UNPLACED_CARD], [CARD]),  # without an address the model decides
    ([CARD], [SAME_CARD, OTHER_CARD], [CARD, OTHER_CARD]),
    ([], [OTHER_CARD, POCL], [OTHER_CARD]),
]


@pytest.mark.parametrize(("by_vendor", "by_opencl", "offered"), CHOICES)
def test_each_card_is_offered_once(
    by_vendor: list[FoundDevice], by_opencl: list[FoundDevice], offered: list[FoundDevice]
) -> None:
    assert choose(by_vendor, by_opencl, CPU) == offered


@pytest.mark.parametrize("spelling", ["00000000:01:00.0", "0000:01:00.0", "1:0.0", "01:00.0"])
def test_drivers_spell_one_address_differently(spelling: str) -> None:
    assert msgspec.structs.replace(CARD, bus_address=spelling).slot == CARD.slot


async def test_this_machine_has_a_device_with_a_stable_name(tmp_path: Path) -> None:
    first = (await detect_devices(tmp_path / "one", 20)).devices
    again = (await detect_devices(tmp_path / "one", 20)).devices
    assert first == again
    assert decode_json(encode_json(first), tuple[DeviceDescription, ...]) == first


async def test_a_processor_with_an_opencl_driver_is_offered_through_it(tmp_path: Path) -> None:
    if not list(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        pytest.skip("PoCL is missing; scripts/test-needs.sh installs it")
    found = (await detect_devices(tmp_path, 30)).devices
    [device] = [each for each in found if each.kind is DeviceKind.CPU]
    assert (device.interface, device.model) == ("opencl", CPU.model)


def test_two_data_directories_offer_the_processor_twice() -> None:
    assert stable_uuid(CPU, "/one") != stable_uuid(CPU, "/two")
    assert stable_uuid(CARD, "/one") == stable_uuid(CARD, "/two") == "GPU-1"


def test_the_processor_is_described() -> None:
    assert CPU.kind is DeviceKind.CPU
    assert CPU.interface == "plain"
    assert CPU.compute_units >= 1
    assert CPU.memory_bytes > 2**20


def test_nvidia_smi_is_read() -> None:
    listing = (
        "GPU-8a3c, NVIDIA GeForce RTX 4090, 24564, 550.54, 00000000:01:00.0\n"
        "GPU-99ff, NVIDIA H100, [N/A], 550.54, 00000000:C1:00.0\n"
        "No devices were found\n"
    )
    one, two = nvidia.parse(listing)
    assert (one.uuid, one.model, one.memory_bytes) == (
        "GPU-8a3c",
        "NVIDIA GeForce RTX 4090",
        24564 * 2**20,
    )
    assert (two.memory_bytes, two.slot) == (0, "c1:00:00")
    assert one.compute_capability is None, "an older driver does not say"


@pytest.mark.parametrize(("said", "known"), [("8.9", "8.9"), ("[N/A]", None), ("8.9.1", None)])
def test_a_newer_driver_says_what_the_card_can_do(said: str, known: str | None) -> None:
    listing = f"GPU-8a3c, NVIDIA L4, 23034, 550.54, 00000000:01:00.0, {said}\n"
    assert [device.compute_capability for device in nvidia.parse(listing)] == [known]


async def test_an_older_driver_is_asked_for_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    row = "GPU-8a3c, NVIDIA L4, 23034, 470.10, 00000000:01:00.0"
    program.write_text(f"#!/bin/sh\ncase $1 in *compute_cap*) exit 2;; esac\necho '{row}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    [found] = await nvidia.find(20)
    assert (found.uuid, found.compute_capability) == ("GPU-8a3c", None)


def test_what_the_opencl_child_prints_is_read_and_nonsense_is_not() -> None:
    assert opencl.parse(msgspec.json.encode([POCL]).decode()) == [POCL]
    assert opencl.parse("Segmentation fault") == []
    assert opencl.parse("") == []


async def test_opencl_is_asked_in_a_child_that_answers() -> None:
    command = (sys.executable, "-P", "-m", opencl.__name__)
    answer = await output_of(command, 20)
    assert isinstance(msgspec.json.decode(answer, type=list[FoundDevice]), list)


CHILDREN = [
    "import time; time.sleep(60)",  # a driver that hangs
    "import os; os.abort()",  # a library that crashes
    "import sys; sys.exit(3)",
]


@pytest.mark.parametrize("source", CHILDREN)
async def test_a_vendor_that_hangs_or_crashes_costs_a_moment_and_no_more(source: str) -> None:
    began = time.monotonic()
    assert await output_of((sys.executable, "-c", source), 0.5) == ""
    assert time.monotonic() - began < 5


async def test_a_tool_that_is_not_there_is_no_error() -> None:
    assert await output_of(("/nonexistent/tool",), 1) == ""


async def test_a_slow_route_is_cut_off_and_the_processor_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hanging(timeout_seconds: float) -> list[FoundDevice]:
        source = "import time; time.sleep(60)"
        return opencl.parse(await output_of((sys.executable, "-c", source), timeout_seconds))

    monkeypatch.setattr(opencl, "find", hanging)
    [device] = (await asyncio.wait_for(detect_devices(tmp_path, 0.3), 10)).devices
    assert device.kind is DeviceKind.CPU


def test_the_text_of_drivers_is_cleaned() -> None:
    assert told(" Radeon\x00\t RX \x1b[31m") == "Radeon RX [31m"
    assert told("\x00") == "unknown"
    assert 190 < len(told("x" * 999)) <= 200
