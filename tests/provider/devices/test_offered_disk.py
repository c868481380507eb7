"""How much disk a node offers: never more than is free, and in memory only what memory can hold."""

import platform
import shutil
from pathlib import Path

import pytest

from potluck.model.node import SandboxReport
from potluck.model.task import GIB, MIB
from potluck.provider.dependencies.pythons import PythonSource
from potluck.provider.devices.offer import NodeOffer, OfferedDisk, free_disk_bytes, offer_disk
from potluck.provider.owner.file import NodeLimits
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.settings import ProviderSettings
from tests.provider.test_images import CPU

IMAGES = SandboxReport("bwrap", "cgroup v2", "cgroup v2", disk="disk image")
WATCHED = SandboxReport("bwrap", "watchdog", "watchdog", disk="watchdog")
UNSAFE = SandboxReport("none", "watchdog", "watchdog", disk="watchdog")
FREE, MEMORY = 100 * GIB, 10 * GIB


@pytest.mark.parametrize(
    ("report", "limits", "offered"),
    [
        (IMAGES, NodeLimits(), OfferedDisk(50 * GIB)),
        (IMAGES, NodeLimits(disk_bytes=80 * GIB), OfferedDisk(80 * GIB)),
        (IMAGES, NodeLimits(disk_bytes=500 * GIB), OfferedDisk(FREE)),
        (WATCHED, NodeLimits(), OfferedDisk(2 * GIB)),
        (WATCHED, NodeLimits(disk_bytes=GIB), OfferedDisk(GIB)),
        (WATCHED, NodeLimits(disk_bytes=80 * GIB), OfferedDisk(80 * GIB, True)),
        (WATCHED, NodeLimits(others_on_disk=True), OfferedDisk(50 * GIB)),
        (UNSAFE, NodeLimits(), OfferedDisk(50 * GIB)),  # no others
    ],
)
def test_offered_disk_sizes(
    report: SandboxReport, limits: NodeLimits, offered: OfferedDisk
) -> None:
    assert offer_disk(limits, report, FREE, MEMORY) == offered


def test_a_reserve_stays_free(tmp_path: Path) -> None:
    disk = shutil.disk_usage(tmp_path)
    free = free_disk_bytes(tmp_path / "not" / "yet")
    assert MIB <= free <= disk.free
    assert free == MIB or disk.free - free == pytest.approx(
        min(disk.total // 10, 5 * GIB), abs=2 * GIB
    )


def test_pythons_that_can_be_fetched_are_offered_if_the_owner_allows_it(tmp_path: Path) -> None:
    settings = ProviderSettings(url="http://a", data_directory=tmp_path, name="n")
    file = tmp_path / "provider.toml"
    fetchable = ("3.10.4", platform.python_version(), "3.99.1")
    for text, report, offered in (
        ("", IMAGES, ()),
        ("fetch_python = true", IMAGES, ("3.10.4", "3.99.1")),
        ("fetch_python = true", UNSAFE, ()),
    ):
        file.write_text(text)
        rules = OwnerRules(file, settings)
        rules.know([CPU])
        offer = NodeOffer(settings, [CPU], report, rules)
        offer.pythons = PythonSource(versions=fetchable, may_fetch=lambda: True)
        assert offer.describe().more_pythons == offered


def test_pythons_are_not_offered_while_their_hosts_do_not_answer(tmp_path: Path) -> None:
    settings = ProviderSettings(url="http://a", data_directory=tmp_path, name="n")
    (tmp_path / "provider.toml").write_text("fetch_python = true")
    rules = OwnerRules(tmp_path / "provider.toml", settings)
    rules.know([CPU])
    now = 0.0
    source = PythonSource(versions=("3.98.1", "3.99.1"), may_fetch=lambda: True, clock=lambda: now)
    source.is_fetched = lambda version: version == "3.98.1"
    offer = NodeOffer(settings, [CPU], IMAGES, rules)
    offer.pythons = source
    assert offer.registration().description.more_pythons == ("3.98.1", "3.99.1")
    source.pause(["github.com:443"])
    assert offer.has_other_pythons()
    assert offer.registration().description.more_pythons == ("3.98.1",), "it is there"
    assert not offer.has_other_pythons()
    now = 1800.0
    assert source.problem() == (
        "Pythons cannot be fetched: github.com:443 did not answer."
        " Other versions are offered again in 30 min 0 s."
    )
    now = 3600.0
    assert source.problem() == "" and offer.has_other_pythons()
    assert offer.registration().description.more_pythons == ("3.98.1", "3.99.1")


def test_the_offer_follows_the_free_space(tmp_path: Path) -> None:
    settings = ProviderSettings(url="http://a", data_directory=tmp_path, name="n")
    rules = OwnerRules(tmp_path / "provider.toml", settings)
    rules.know([CPU])
    offer = NodeOffer(settings, [CPU], IMAGES, rules)
    before = offer.registration().description.disk_bytes
    assert not offer.has_other_disk()
    # What tasks have written is theirs, so the offer stays the same while they run; here as if they
    # had written more than is free.
    offer.held_bytes = lambda: 4 * before
    assert offer.describe().disk_bytes > 2 * before, "for the owner to see, not for the pool"
    assert offer.has_other_disk()
    assert offer.registration().description.disk_bytes > 2 * before
    assert not offer.has_other_disk()
