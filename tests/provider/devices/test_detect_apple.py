"""The graphics of Macs, from answers like those that system_profiler gives."""

import json
from collections.abc import Mapping

import pytest

from potluck.provider.detect.apple import parse
from potluck.provider.detect.query_process import Unanswered
from potluck.provider.detect.report import RouteOutcome
from potluck.provider.detect.types import stable_uuid

GIB = 2**30
M3 = {
    "_name": "Apple M3 Pro",
    "spdisplays_mtlgpufamilysupport": "spdisplays_metal3",
    "spdisplays_vendor": "sppci_vendor_Apple",
    "sppci_cores": "18",
    "sppci_model": "Apple M3 Pro",
    "spdisplays_ndrvs": [{"_name": "Color LCD"}],
}
RADEON = {
    "_name": "kHW_AMDRadeonPro5500MItem",
    "sppci_model": "AMD Radeon Pro 5500M",
    "spdisplays_vendor": "AMD (0x1002)",
    "spdisplays_vram": "8 GB",
}
IRIS = {"_name": "kHW_IntelIris6100Item", "_spdisplays_vram": "1536 MB"}


def listed(*graphics: Mapping[str, object]) -> str:
    return json.dumps({"SPDisplaysDataType": graphics})


def test_apples_own_graphics_share_the_machines_memory() -> None:
    [device] = parse(listed(M3), 36 * GIB).devices
    assert (device.vendor, device.model, device.interface) == ("Apple", "Apple M3 Pro", "metal")
    assert (device.compute_units, device.memory_bytes) == (18, 36 * GIB)


def test_older_macs_have_cards() -> None:
    radeon, iris, twin = parse(listed(RADEON, IRIS, RADEON), 16 * GIB).devices
    assert (radeon.vendor, radeon.model) == ("AMD", "AMD Radeon Pro 5500M")
    assert (radeon.memory_bytes, iris.memory_bytes) == (8 * GIB, 1536 * 2**20)
    assert stable_uuid(radeon) != stable_uuid(twin)


@pytest.mark.parametrize("reading", ["", "no such data type", '{"SPDisplaysDataType": 7}'])
def test_nonsense_is_not_believed(reading: str) -> None:
    with pytest.raises(Unanswered):
        parse(reading, GIB)


def test_a_mac_without_graphics_has_none() -> None:
    assert parse("{}", GIB).outcome is RouteOutcome.NOTHING
