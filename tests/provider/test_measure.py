"""Devices are measured by computing on them, once, and in a process that may fail."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceDescription, DeviceKind, Measured
from potluck.provider.detect.devices import detect_devices
from potluck.provider.detect.found import FoundDevice
from potluck.provider.measure.measure import measure
from tests.conftest import need

FOUND = FoundDevice(DeviceKind.GPU, "V", "M", 1, "opencl", opencl_uuid="gpu-not-here")
DEVICE = DeviceDescription(DeviceKind.GPU, "GPU-1", "V", "M", 1, driver="1.0")
AT_ONCE = 0.001


async def test_a_device_is_measured_once_for_each_driver(tmp_path: Path) -> None:
    detection = await detect_devices(tmp_path, 60)
    device = detection.devices[0]
    found = detection.found[device.uuid]
    if not found.opencl_uuid:
        need("an OpenCL driver (PoCL)")
    measured = await measure(device, found, tmp_path, 120)
    assert measured is not None and measured.by == "opencl"
    # Whatever runs on this machine: a byte and an operation in ten nanoseconds at the least, and
    # less than the largest card there is.
    for figure in (
        measured.memory_bytes_per_second,
        measured.float_operations_per_second,
        measured.integer_operations_per_second,
    ):
        assert 10**8 < figure < 10**15
    assert await measure(device, found, tmp_path, AT_ONCE) == measured, "it was kept"
    newer = replace(device, driver=f"{device.driver}.1")
    assert await measure(newer, found, tmp_path, AT_ONCE) is None, "another driver, another figure"
    assert await measure(device, found, tmp_path, AT_ONCE) == measured


async def test_what_opencl_does_not_know_is_not_measured(tmp_path: Path) -> None:
    assert await measure(DEVICE, replace(FOUND, opencl_uuid=""), tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kept", [b"", b"\xff", b"[]", b'{"GPU-1 1.0": {"by": 7}}'])
async def test_what_was_kept_and_can_not_be_read_does_no_harm(tmp_path: Path, kept: bytes) -> None:
    (tmp_path / "measured.json").write_bytes(kept)
    assert await measure(DEVICE, FOUND, tmp_path, AT_ONCE) is None


async def test_what_was_kept_is_used(tmp_path: Path) -> None:
    (tmp_path / "measured.json").write_bytes(b'{"GPU-1 1.0": {"memory_bytes_per_second": 5}}')
    assert await measure(DEVICE, FOUND, tmp_path, AT_ONCE) == Measured(memory_bytes_per_second=5)
