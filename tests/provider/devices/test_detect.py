"""Devices: each card once, a CPU where there is none, and vendors that cannot hurt us."""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.provider.detect import cpu, opencl
from potluck.provider.detect import query_process as children
from potluck.provider.detect.dedupe import merge_devices
from potluck.provider.detect.devices import detect_devices, through_opencl
from potluck.provider.detect.query_process import Child, Unanswered, output_of, python_module
from potluck.provider.detect.question import Find
from potluck.provider.detect.report import RouteAnswer, RouteOutcome
from potluck.provider.detect.types import FoundDevice, clean_name, stable_uuid
from potluck.wire.codec import decode_json, encode_json
from tests.processes import await_true

GPU = DeviceKind.GPU
CPU = cpu.find()
POCL = FoundDevice(
    DeviceKind.CPU, "GenuineIntel", "cpu-haswell", 2**33, "opencl", driver="PoCL", opencl_uuid="p"
)
CARD = FoundDevice(
    GPU, "NVIDIA", "RTX 4090", 24 * 2**30, "cuda", uuid="GPU-1", bus_address="0000:01:00.0"
)
TWIN = replace(CARD, uuid="GPU-2", bus_address="0000:02:00.0")
FAR_TWIN = replace(CARD, uuid="GPU-3", bus_address="0001:01:00.0")


def by_opencl(card: FoundDevice, **changes: object) -> FoundDevice:
    """The same card, as OpenCL sees it."""
    device = replace(
        card, vendor=f"{card.vendor} Corporation", interface="opencl", uuid="", platform="one"
    )
    return replace(device, **changes)


OTHER_CARD = FoundDevice(GPU, "AMD", "RX 7900", 24 * 2**30, "opencl", bus_address="0a:00.0")
UNPLACED = by_opencl(CARD, bus_address="", model="rtx 4090")
RADEON = FoundDevice(
    GPU, "AMD", "AMD GPU 744c", 24 * 2**30, "hip", uuid="GPU-a", bus_address="0000:03:00.0"
)
GFX = FoundDevice(GPU, "Advanced Micro Devices, Inc.", "gfx1100", 24 * 10**9, "opencl")

MERGED = [
    ([], [], []),
    ([], [POCL], []),  # a processor is no card
    ([CARD], [], ["GPU-1"]),
    ([CARD], [by_opencl(CARD)], ["GPU-1"]),  # found by two routes, one device
    ([CARD], [UNPLACED], ["GPU-1"]),  # without an address the model decides
    ([CARD], [by_opencl(CARD), OTHER_CARD], ["GPU-1", "RX 7900"]),
    ([CARD, TWIN], [UNPLACED, UNPLACED], ["GPU-1", "GPU-2"]),  # two of one model, each once
    ([CARD], [UNPLACED, UNPLACED], ["GPU-1", "rtx 4090"]),  # one more than its vendor knows
    ([CARD, FAR_TWIN], [by_opencl(FAR_TWIN)], ["GPU-1", "GPU-3"]),
    ([CARD], [by_opencl(FAR_TWIN)], ["GPU-1", "RTX 4090"]),  # the same slot of another domain
    ([FAR_TWIN], [by_opencl(CARD, bus_address="01:00.0")], ["GPU-3"]),  # no domain told
    ([CARD], [by_opencl(TWIN)], ["GPU-1", "RTX 4090"]),  # another slot, whatever the model
    # Two platforms list the same cards, each in its own way.
    ([], [OTHER_CARD, replace(OTHER_CARD, platform="two")], ["RX 7900"]),
    ([RADEON], [GFX], ["GPU-a"]),  # the kernel and OpenCL know it by different names
    ([RADEON], [replace(GFX, memory_bytes=2**30)], ["GPU-a", "gfx1100"]),  # a built-in one
]


@pytest.mark.parametrize(("by_vendor", "listed", "offered"), MERGED)
def test_each_card_is_offered_once(
    by_vendor: list[FoundDevice], listed: list[FoundDevice], offered: list[str]
) -> None:
    assert [device.uuid or device.model for device in merge_devices(by_vendor, listed)] == offered


def test_opencl_completes_facts_of_a_vendor() -> None:
    device = by_opencl(CARD, compute_units=128, driver="CUDA 12", opencl_uuid="o")
    [card] = merge_devices([CARD], [device])
    assert (card.compute_units, card.driver, card.opencl_uuid) == (128, "CUDA 12", "o")
    assert (card.interface, card.vendor) == ("cuda", "NVIDIA")


@pytest.mark.parametrize("spelling", ["00000000:01:00.0", "0000:01:00.0", "1:0.0", "01:00.0"])
def test_drivers_spell_one_address_differently(spelling: str) -> None:
    assert replace(CARD, bus_address=spelling).slot == CARD.slot


def test_twins_without_an_address_are_distinguished_by_order() -> None:
    assert stable_uuid(replace(UNPLACED, ordinal=1)) != stable_uuid(UNPLACED)


async def test_this_machine_has_a_device_with_a_stable_name(tmp_path: Path) -> None:
    first = await detect_devices(tmp_path / "one", 20)
    second_detection = await detect_devices(tmp_path / "one", 20)
    assert first.devices == second_detection.devices
    assert list(first.found) == [device.uuid for device in first.devices]
    assert decode_json(encode_json(first.devices), tuple[DeviceDescription, ...]) == first.devices
    [opencl_trial] = [trial for trial in first.tried if trial.route == "opencl"]
    if not list(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        pytest.skip("PoCL is missing; scripts/test-needs.sh installs it")
    assert (opencl_trial.outcome, opencl_trial.devices > 0) == (RouteOutcome.FOUND, True)
    for device in (candidate for candidate in first.devices if candidate.kind is DeviceKind.CPU):
        assert (device.interface, device.model) == ("opencl", CPU.model)
        assert first.found[device.uuid].opencl_uuid


def test_the_processor_through_opencl_is_still_itself() -> None:
    assert through_opencl(CPU, []) == CPU
    reached = through_opencl(CPU, [by_opencl(CARD), POCL])
    assert reached == replace(CPU, interface="opencl", driver="PoCL", opencl_uuid="p")


def test_two_data_directories_offer_the_processor_twice() -> None:
    assert stable_uuid(CPU, "/one") != stable_uuid(CPU, "/two")
    assert stable_uuid(CARD, "/one") == stable_uuid(CARD, "/two") == "GPU-1"


def test_the_processor_is_described_and_looked_at() -> None:
    assert CPU.kind is DeviceKind.CPU
    assert CPU.interface == "plain"
    assert CPU.compute_units >= 1
    assert CPU.memory_bytes > 2**20
    sample = cpu.sample()
    assert sample.utilisation_percent is not None and 0 <= sample.utilisation_percent <= 100
    assert sample.memory_used_bytes is not None and sample.memory_used_bytes > 2**20


def test_output_of_the_opencl_child_is_parsed_or_refused() -> None:
    assert opencl.parse(msgspec.json.encode([POCL]).decode()).devices == (POCL,)
    assert opencl.parse("[]").outcome is RouteOutcome.NOTHING
    for nonsense in ("Segmentation fault", "", "\ud800"):
        with pytest.raises(Unanswered):
            opencl.parse(nonsense)


FAILING = [
    ("import time; time.sleep(60)", RouteOutcome.TIMED_OUT, "did not answer within 0.5 s"),
    ("import os; os.abort()", RouteOutcome.FAILED, "SIGABRT"),
    ("import sys; sys.exit(3)", RouteOutcome.FAILED, "status 3"),
]


@pytest.mark.parametrize(("source", "outcome", "sentence"), FAILING)
async def test_a_vendor_that_hangs_or_crashes_costs_a_moment_and_no_more(
    source: str, outcome: RouteOutcome, sentence: str
) -> None:
    started = time.monotonic()
    with pytest.raises(Unanswered) as raised:
        await output_of((sys.executable, "-c", source), 0.5)
    assert time.monotonic() - started < 5
    assert raised.value.outcome is outcome and sentence in raised.value.detail


async def test_a_tool_that_is_not_there_is_no_error() -> None:
    with pytest.raises(Unanswered) as raised:
        await output_of(("/nonexistent/tool",), 1)
    assert raised.value.outcome is RouteOutcome.MISSING


async def test_slow_routes_are_cut_off_and_the_processor_remains(tmp_path: Path) -> None:
    started = time.monotonic()
    detection = await detect_devices(tmp_path, 0.001)
    assert time.monotonic() - started < 10
    assert [device.kind for device in detection.devices] == [DeviceKind.CPU]
    [opencl_trial] = [trial for trial in detection.tried if trial.route == "opencl"]
    assert (opencl_trial.outcome, opencl_trial.devices) == (RouteOutcome.TIMED_OUT, 0)
    assert opencl_trial.detail and opencl_trial.hint


async def test_no_secret_of_ours_goes_to_foreign_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POTLUCK_WALLET_KEY", "secret")
    output = await output_of((sys.executable, "-c", "import os; print(dict(os.environ))"), 20)
    assert "PATH" in output and "POTLUCK_WALLET_KEY" not in output


async def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    """Also while the library that it asks hangs."""
    hanging = tmp_path / "hanging.py"
    hanging.write_text(
        "import os, pathlib, sys, time\n"
        "from potluck.provider.detect.question import serve\n"
        "class Hanging:\n"
        "    def find(self):\n"
        f"        pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "        time.sleep(60)\n"
        "serve(Hanging())\n"
    )
    source = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, {str(hanging)!r}], stdin=subprocess.PIPE)\n"
        'child.stdin.write(b\'{"type":"find"}\\n\'); child.stdin.flush(); time.sleep(60)\n'
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", source)
    pid_file = tmp_path / "pid"
    try:
        await_true(lambda: pid_file.exists() and pid_file.read_text(), "the child hangs")
    finally:
        parent.kill()
        await parent.wait()
    pid = int(pid_file.read_text())
    try:
        await_true(lambda: not _is_alive(pid), "the child has ended", 10)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


async def test_a_child_that_was_ended_is_started_anew_by_the_next_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = Child("potluck.provider.detect.intel")
    try:
        assert isinstance(await child.ask(Find(), RouteAnswer, 20), RouteAnswer)
        with pytest.raises(Unanswered) as raised:
            await child.ask(Find(), int, 20)
        assert raised.value.outcome is RouteOutcome.FAILED
        assert isinstance(await child.ask(Find(), RouteAnswer, 20), RouteAnswer)
    finally:
        await child.close()


async def test_an_unkillable_child_is_not_joined_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one in the uninterruptible sleep of a driver, to which no signal comes."""
    monkeypatch.setattr(children, "_END_SECONDS", 0.05)
    child, before = Child("potluck.provider.detect.intel"), _children()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.subprocess.Process, "kill", lambda _: None)
            patch.setattr(asyncio.subprocess.Process, "communicate", lambda _: asyncio.sleep(9))
            for _ in range(3):
                with pytest.raises(Unanswered):
                    await child.ask(Find(), int, 20)
            (left_pid,) = _children() - before
        os.kill(left_pid, signal.SIGKILL)
        route_answer = None
        async with asyncio.timeout(20):
            while route_answer is None:  # until it is known that it has ended
                with suppress(Unanswered):
                    route_answer = await child.ask(Find(), RouteAnswer, 20)
                await asyncio.sleep(0.01)
        assert left_pid not in _children()
    finally:
        await child.close()


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def test_the_working_directory_is_not_imported_from() -> None:
    assert python_module("x")[1] == "-P"


def test_the_text_of_drivers_is_cleaned() -> None:
    assert clean_name(" Radeon\x00\t RX \x1b[31m") == "Radeon RX [31m"
    assert clean_name("\x00") == "unknown"
    assert 190 < len(clean_name("x" * 999)) <= 200
