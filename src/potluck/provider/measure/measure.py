"""Measures a device once for each driver version, and saves the result in the data directory.

It takes a second or two, in a child process. Other load on the device lowers the result. Devices
that OpenCL does not list are not measured.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import structlog

from potluck.local.durable_files import write_atomically
from potluck.model.device import DeviceDescription, Measured
from potluck.provider.detect.query_process import Unanswered, output_of, python_module
from potluck.provider.detect.types import FoundDevice

log = structlog.get_logger()

# Mostly for drivers that compile slowly: the benchmark has its own time limit.
MEASURE_SECONDS = 30.0


async def measure(
    device: DeviceDescription,
    found: FoundDevice,
    data_directory: Path,
    timeout_seconds: float = MEASURE_SECONDS,
) -> Measured | None:
    """Measures and saves the result; None if the device cannot be measured."""
    if not found.opencl_uuid:
        return None
    measured = await _benchmark(found.opencl_uuid, timeout_seconds)
    if measured is not None:
        _keep(data_directory, {**_saved_measurements(data_directory), _key(device): measured})
    return measured


def measured_before(device: DeviceDescription, data_directory: Path) -> Measured | None:
    return _saved_measurements(data_directory).get(_key(device))


def _key(device: DeviceDescription) -> str:
    return f"{device.uuid} {device.driver}"


async def _benchmark(opencl_uuid: str, timeout_seconds: float) -> Measured | None:
    command = python_module("potluck.provider.measure.benchmark", opencl_uuid)
    try:
        output = await output_of(command, timeout_seconds)
        return msgspec.json.decode(output, type=Measured | None)
    except (Unanswered, msgspec.DecodeError, UnicodeError) as error:
        log.warning("a device could not be measured", device=opencl_uuid, error=str(error))
        return None


def _file(data_directory: Path) -> Path:
    return data_directory / "measured.json"


def _saved_measurements(data_directory: Path) -> Mapping[str, Measured]:
    """Empty if the file is missing or unreadable."""
    try:
        return msgspec.json.decode(_file(data_directory).read_bytes(), type=dict[str, Measured])
    except (OSError, msgspec.DecodeError, UnicodeError):
        return {}


def _keep(data_directory: Path, measured: Mapping[str, Measured]) -> None:
    write_atomically(_file(data_directory), msgspec.json.encode(measured))
