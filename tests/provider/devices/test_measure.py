"""Devices are measured by computing on them, once, and in a process that may fail."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceDescription, DeviceKind, Measured
from potluck.model.node import SandboxReport
from potluck.provider.detect.devices import detect_devices
from potluck.provider.detect.report import Detection
from potluck.provider.detect.types import FoundDevice
from potluck.provider.devices.offer import NodeOffer, measure_devices
from potluck.provider.measure.measure import measure, measured_before
from potluck.provider.owner.live_rules import OwnerRules
from tests.conftest import need
from tests.provider.builders import settings_for

FOUND = FoundDevice(DeviceKind.GPU, "V", "M", 1, "opencl", opencl_uuid="gpu-not-here")
DEVICE = DeviceDescription(DeviceKind.GPU, "GPU-1", "V", "M", 1, driver="1.0")
AT_ONCE = 0.001


async def test_a_device_is_measured_once_for_each_driver(tmp_path: Path) -> None:
    detection = await detect_devices(tmp_path, 60)
    device = detection.devices[0]
    found_device = detection.found[device.uuid]
    if not found_device.opencl_uuid:
        need("an OpenCL driver (PoCL)")
    measured = await measure(device, found_device, tmp_path, 120)
    assert measured is not None and measured.by == "opencl"
    # Whatever runs on this machine: a byte and an operation in ten nanoseconds at the least, and
    # less than the largest card there is.
    for figure in (
        measured.memory_bytes_per_second,
        measured.float_operations_per_second,
        measured.integer_operations_per_second,
    ):
        assert 10**8 < figure < 10**15
    assert measured_before(device, tmp_path) == measured, "it was kept"
    newer = replace(device, driver=f"{device.driver}.1")
    assert measured_before(newer, tmp_path) is None, "another driver, another figure"


async def test_devices_unknown_to_opencl_are_not_measured(tmp_path: Path) -> None:
    assert await measure(DEVICE, replace(FOUND, opencl_uuid=""), tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cached", [b"", b"\xff", b"[]", b'{"GPU-1 1.0": {"by": 7}}'])
async def test_an_unreadable_cache_is_harmless(tmp_path: Path, cached: bytes) -> None:
    (tmp_path / "measured.json").write_bytes(cached)
    assert measured_before(DEVICE, tmp_path) is None
    assert await measure(DEVICE, FOUND, tmp_path, AT_ONCE) is None


async def test_free_devices_are_measured_and_known_figures_are_used_immediately(
    tmp_path: Path,
) -> None:
    (tmp_path / "measured.json").write_bytes(b'{"GPU-1 1.0": {"memory_bytes_per_second": 5}}')
    devices = [DEVICE, *(replace(DEVICE, uuid=uuid) for uuid in ("GPU-2", "GPU-3"))]
    found_devices = dict.fromkeys(("GPU-1", "GPU-2", "GPU-3"), replace(FOUND, opencl_uuid=""))
    rules = OwnerRules(tmp_path / "provider.toml", settings_for("http://127.0.0.1:1", tmp_path))
    rules.know(devices)
    offer = NodeOffer(
        settings_for("http://127.0.0.1:1", tmp_path),
        devices,
        SandboxReport("bwrap", "watchdog", "watchdog"),
        rules,
    )
    free, measured_uuids = {"GPU-3"}, list[str]()

    @contextmanager
    def own_doing(uuid: str) -> Iterator[None]:
        measured_uuids.append(uuid)
        yield

    detection = Detection(tuple(devices), found_devices, ())
    measuring = asyncio.create_task(
        measure_devices(offer, detection, tmp_path, own_doing, free.__contains__, 0.01)
    )
    await asyncio.sleep(0.05)
    measurements = {device.uuid: device.measured for device in offer.describe().devices}
    assert measurements["GPU-1"] == Measured(memory_bytes_per_second=5)
    assert measured_uuids == ["GPU-3"] and not measuring.done()
    free.add("GPU-2")
    async with asyncio.timeout(5):
        await measuring
    assert measured_uuids == ["GPU-3", "GPU-2"]
