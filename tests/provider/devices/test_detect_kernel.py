"""AMD's and Intel's cards as the kernel tells, from trees like those that it shows below /sys.

Nobody here has such a card: the trees follow the kernel's documentation.
"""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from potluck.model.device import DeviceKind, Health
from potluck.provider.detect import amd
from potluck.provider.detect.amd import Amd
from potluck.provider.detect.intel import Intel
from potluck.provider.detect.report import RouteOutcome
from potluck.provider.detect.sysfs import cards_of, link
from potluck.provider.detect.types import stable_uuid

GIB = 2**30
PCI = "bus/pci/devices"


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


def card(root: Path, address: str, files: dict[str, str]) -> Path:
    write(root / PCI / address, {"class": "0x030000", **files})
    return root / PCI / address


def radeon(root: Path) -> Path:
    """With the kernel's compute driver, and two processes, one of which has taken memory."""
    files = {
        "vendor": "0x1002",
        "device": "0x744c",
        "unique_id": "5a3c1f0e9b7d2468",
        "mem_info_vram_total": str(24 * GIB),
        "mem_info_vram_used": str(3 * GIB),
        "gpu_busy_percent": "42",
        "max_link_speed": "16.0 GT/s PCIe",
        "max_link_width": "16",
        "hwmon/hwmon3/temp1_input": "61000",
        "hwmon/hwmon3/power1_average": "187000000",
        "hwmon/hwmon3/power1_cap": "303000000",
        "hwmon/hwmon3/power1_cap_default": "303000000",
        "hwmon/hwmon3/power1_cap_min": "100000000",
        "hwmon/hwmon3/power1_cap_max": "350000000",
        "ras/umc_err_count": "ue: 4\nce: 17",
        "drm/renderD129/dev": "226:129",
    }
    kfd = {
        "topology/nodes/0/properties": "cpu_cores_count 16\ndrm_render_minor 0",
        "topology/nodes/1/properties": "simd_count 192\ndrm_render_minor 129",
        "topology/nodes/1/gpu_id": "51197",
        "proc/801/vram_51197": "1073741824",
        "proc/802/vram_51197": "0",
    }
    write(root / "class/kfd/kfd", kfd)
    return card(root, "0000:03:00.0", files)


def test_an_amd_card_is_described(tmp_path: Path) -> None:
    radeon(tmp_path)
    route_answer = Amd(tmp_path).find()
    [device] = route_answer.devices
    assert (device.kind, device.vendor, device.route) == (DeviceKind.GPU, "AMD", "amd")
    assert (device.uuid, device.model) == ("GPU-5a3c1f0e9b7d2468", "AMD GPU 744c")
    assert (device.memory_bytes, device.power_watts) == (24 * GIB, 303)
    assert (device.bus_address, device.pcie, device.minor) == ("0000:03:00.0", "4.0 x16", 129)
    assert device.interface == "hip"
    assert "amdsmi is not installed" in route_answer.detail


def test_an_amd_card_is_looked_at(tmp_path: Path) -> None:
    place = radeon(tmp_path)
    sample = Amd(tmp_path).look().samples["GPU-5a3c1f0e9b7d2468"]
    assert (sample.health, sample.utilisation_percent) == (Health.WELL, 42)
    assert (sample.temperature_celsius, sample.power_watts) == (61, 187)
    assert (sample.memory_used_bytes, sample.memory_errors) == (3 * GIB, 4)
    assert sample.pids == (801,), "who has taken memory on it"
    (place / "config").write_bytes(b"\xff" * 64)
    assert Amd(tmp_path).look().samples["GPU-5a3c1f0e9b7d2468"].health is Health.LOST


def test_an_amd_card_is_given_a_power_limit(tmp_path: Path) -> None:
    cap = radeon(tmp_path) / "hwmon/hwmon3/power1_cap"
    vendor, uuid = Amd(tmp_path), "GPU-5a3c1f0e9b7d2468"
    assert vendor.set_power(uuid, 200) is None
    assert cap.read_text() == "200000000"
    assert vendor.set_power(uuid, None) is None
    assert cap.read_text() == "303000000"
    assert "from 100 to 350 W" in (vendor.set_power(uuid, 99) or "")
    assert "does not support a power limit" in (vendor.set_power("GPU-gone", 200) or "")


def test_without_the_compute_driver_only_opencl_reaches_it(tmp_path: Path) -> None:
    files = {"vendor": "0x1002", "device": "0x67df", "mem_info_vram_total": str(8 * GIB)}
    card(tmp_path, "0000:0a:00.0", files)
    [device] = Amd(tmp_path).find().devices
    assert (device.interface, device.uuid, device.pcie) == ("opencl", "", None)
    assert Amd(tmp_path).look().samples[stable_uuid(device)].pids is None


def test_impossible_readings_of_the_kernel_are_ignored(tmp_path: Path) -> None:
    place = radeon(tmp_path)
    nonsense = {
        "gpu_busy_percent": "900",
        "mem_info_vram_used": "-5",
        "hwmon/hwmon3/temp1_input": "4000000000",
        "hwmon/hwmon3/power1_average": "NaN",
        "ras/umc_err_count": "ue: many",
        "max_link_speed": "Unknown",
    }
    write(place, nonsense)
    sample = Amd(tmp_path).look().samples["GPU-5a3c1f0e9b7d2468"]
    assert (sample.utilisation_percent, sample.temperature_celsius) == (None, None)
    assert (sample.memory_used_bytes, sample.power_watts) == (None, None)
    assert sample.memory_errors is None
    assert link(place) is None


class _AmdSmiException(Exception):
    pass


def test_amdsmi_knows_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    radeon(tmp_path)
    amdsmi = ModuleType("amdsmi")
    asic_info = {"market_name": "Radeon RX 7900 XTX"}
    vars(amdsmi).update(
        AmdSmiException=_AmdSmiException,
        amdsmi_init=lambda: None,
        amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: ["handle"],
        amdsmi_get_gpu_device_bdf=lambda handle: "0000:03:00.0",
        amdsmi_get_gpu_asic_info=lambda handle: asic_info,
    )
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi)
    [device] = Amd(tmp_path).find().devices
    assert device.model == "Radeon RX 7900 XTX"
    assert device.uuid == "GPU-5a3c1f0e9b7d2468", "whether it is installed or not"

    def broken() -> None:
        raise _AmdSmiException

    vars(amdsmi)["amdsmi_init"] = broken
    [device] = Amd(tmp_path).find().devices
    assert device.model == "AMD GPU 744c", "then the kernel is enough"
    assert amd._names() == {}


def arc(root: Path, **files: str) -> Path:
    files_of_card = {
        "vendor": "0x8086",
        "device": "0x56a0",
        "max_link_speed": "8.0 GT/s PCIe",
        "max_link_width": "16",
        "hwmon/hwmon2/power1_max": "228000000",
        "hwmon/hwmon2/temp1_input": "48000",
        "hwmon/hwmon2/temp2_input": "55000",
        "drm/renderD128/dev": "226:128",
    }
    return card(root, "0000:04:00.0", {**files_of_card, **files})


@pytest.mark.parametrize(
    "told_by",
    [
        {"drm/card0/lmem_total_bytes": str(16 * GIB)},  # i915
        {"tile0/physical_vram_size_bytes": str(16 * GIB)},  # xe
        # Neither: the window to it is as large.
        {"resource": f"0x0 0x0 0x0\n0x0 0x0 0x0\n{64 * GIB:#x} {80 * GIB - 1:#x} 0x14220c"},
    ],
)
def test_an_intel_card_is_described(tmp_path: Path, told_by: dict[str, str]) -> None:
    arc(tmp_path, **told_by)
    card(tmp_path, "0000:00:02.0", {"vendor": "0x8086", "device": "0x4680"})  # in the processor
    [device] = Intel(tmp_path).find().devices
    assert (device.vendor, device.model, device.route) == ("Intel", "Intel GPU 56a0", "intel")
    assert (device.memory_bytes, device.power_watts) == (16 * GIB, 228)
    assert (device.pcie, device.minor, device.interface) == ("3.0 x16", 128, "opencl")


def test_an_intel_card_is_looked_at(tmp_path: Path) -> None:
    place = arc(tmp_path)
    [device] = Intel(tmp_path).find().devices
    assert Intel(tmp_path).look().samples[stable_uuid(device)].temperature_celsius == 55
    (place / "config").write_bytes(b"\xff" * 64)
    assert Intel(tmp_path).look().samples[stable_uuid(device)].health is Health.LOST


def test_other_things_on_the_bus_are_no_cards(tmp_path: Path) -> None:
    card(tmp_path, "0000:05:00.0", {"class": "0x020000", "vendor": "0x8086"})  # a network card
    card(tmp_path, "0000:06:00.0", {"vendor": "0x102b"})  # graphics of somebody else
    assert cards_of(0x8086, tmp_path) == []
    assert Intel(tmp_path).find().outcome is RouteOutcome.NOTHING
    assert Amd(tmp_path).find().outcome is RouteOutcome.NOTHING
