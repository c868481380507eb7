"""What an owner says about the network, and which grants are taken under it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.ids import AccountId
from potluck.model.node import SandboxReport
from potluck.model.task import GIB, Requirements
from potluck.model.terms import TermsChange
from potluck.provider.devices.offer import NodeOffer
from potluck.provider.owner.live_rules import OwnerRules
from tests.provider.builders import a_grant, settings_for

CPU = DeviceDescription(DeviceKind.CPU, "CPU-1", "AMD", "EPYC", 2**30)
STRANGER = AccountId("account_01j00000000000000000000009")


def rules_of(directory: Path, text: str, presets: str = "") -> OwnerRules:
    path = directory / "provider.toml"
    path.write_text(text)
    settings = settings_for("http://127.0.0.1:1", directory)
    if presets:
        (directory / "presets.toml").write_text(presets)
        settings = replace(settings, network_presets=directory / "presets.toml")
    rules = OwnerRules(path, settings)
    rules.know([CPU])
    return rules


def why_not(rules: OwnerRules, *hosts: str, size: int = GIB, is_own: bool = False) -> str | None:
    """Why a task is declined; the grant of `build` belongs to ACCOUNT."""
    needs = Requirements(network=hosts, network_bytes=size)
    grant = replace(a_grant(device="CPU-1"), requirements=needs)
    return rules.may_run(AccountId(grant.account_id) if is_own else STRANGER, grant)


@pytest.mark.parametrize(
    ("text", "hosts", "is_taken_of_owner", "others"),
    [
        ("", ("pypi.org",), True, False),
        ("", (), True, True),
        ('network = "pypi"', ("pypi.org",), True, True),
        ('network = ["pypi"]', ("github.com",), True, False),
        ('network = "open"', ("pypi.org",), True, True),
        ('network = "open"', ("pypi.org:22",), False, False),
        ('network = "*.pypi.org:22"', ("x.pypi.org:22",), False, True),
        ('own_network = "none"', ("pypi.org",), False, False),
        ('network = "none"\n[device.CPU-1]\nnetwork = "open"', ("pypi.org",), True, True),
    ],
)
def test_a_grant_is_taken(
    tmp_path: Path, text: str, hosts: tuple[str, ...], is_taken_of_owner: bool, others: bool
) -> None:
    rules = rules_of(tmp_path, text)
    assert rules.trouble() == ("", "")
    assert (why_not(rules, *hosts, is_own=True) is None) is is_taken_of_owner
    assert (why_not(rules, *hosts) is None) is others


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('network = "pipy"', "no network preset 'pipy'"),
        ('network = "10.0.0.1"', "a private network"),
        ('network = "none,pypi"', "none and something else"),
        ('network = "my host"', "'my host' is not a host"),
        ('network = "https://data.example.org/a"', "is not a host"),
        ('network = "2001:db8::1"', "is not a host"),
        ('network_per_task = "1"', "network_per_task"),
        ('[device.CPU-1]\nnetwork_per_month = "1GB"', "applies to the whole machine"),
    ],
)
def test_a_wrong_file_is_named_and_changes_nothing(tmp_path: Path, text: str, problem: str) -> None:
    rules = rules_of(tmp_path, 'network = "pypi"')
    rules.path.write_text(text)
    rules.reread()
    assert problem in rules.trouble()[0]
    assert why_not(rules, "pypi.org") is None, "the last valid file stays in force"


def test_an_operator_can_add_presets(tmp_path: Path) -> None:
    presets = '[presets]\nours = ["git.ours.net:8443"]\npypi = ["mirror.ours.net"]\n'
    rules = rules_of(tmp_path, 'network = "ours,pypi"', presets)
    assert rules.terms["CPU-1"].network == ("git.ours.net:8443", "mirror.ours.net")


def test_the_limits_of_a_task_and_of_the_month_hold(tmp_path: Path) -> None:
    rules = rules_of(
        tmp_path, 'network = "open"\nnetwork_per_task = "2GiB"\nnetwork_per_month = "5GiB"'
    )
    assert why_not(rules, "pypi.org", size=2 * GIB) is None
    assert "2 GiB" in str(why_not(rules, "pypi.org", size=2 * GIB + 1))
    rules.network_used_bytes = lambda: 4 * GIB
    assert why_not(rules, "pypi.org", size=GIB) is None
    assert why_not(rules, "pypi.org", size=GIB + 1) is not None
    assert why_not(rules, "pypi.org", size=GIB + 1, is_own=True) is not None
    assert rules.offered_terms("CPU-1").network_task_bytes == GIB
    rules.network_used_bytes = lambda: 6 * GIB
    assert why_not(rules, "pypi.org", size=1_000) is not None
    assert rules.offered_terms("CPU-1").network == ()


def test_a_command_changes_it(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, "")
    rules.change(TermsChange(network=("pypi",), network_month_bytes=10**9))
    assert why_not(rules, "pypi.org", size=10**6) is None
    assert 'network = ["pypi"]' in rules.path.read_text()
    rules.change(TermsChange(network=("nonsense",)))
    assert why_not(rules, "pypi.org", size=10**6) is None, "an unknown preset is not written"
    assert rules.trouble() == ("", "")


def test_raw_includes_every_host_and_port_and_only_raw_includes_raw(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, 'network = ["huggingface", "raw"]')
    assert rules.terms["CPU-1"].network == ("raw",)
    assert why_not(rules, "raw") is None
    assert why_not(rules, "example.org:22") is None
    rules = rules_of(tmp_path, 'network = ["open", "*:22"]')
    assert why_not(rules, "raw") is not None


@pytest.mark.parametrize("driver", ["docker", "runsc", "none"])
def test_raw_is_offered_as_open_where_it_does_not_work(tmp_path: Path, driver: str) -> None:
    rules = rules_of(tmp_path, 'network = ["raw"]')
    settings = settings_for("http://127.0.0.1:1", tmp_path)
    description = NodeOffer(settings, [CPU], SandboxReport(driver), rules).describe()
    assert description.devices[0].terms.network == ("*",)
    assert description.sandbox.notes == ("network=raw acts as open: only the sandbox bwrap has it",)


def test_raw_needs_passt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rules = rules_of(tmp_path, 'network = ["raw"]')
    settings = settings_for("http://127.0.0.1:1", tmp_path)
    description = NodeOffer(settings, [CPU], SandboxReport("bwrap"), rules).describe()
    assert description.devices[0].terms.network == ("*",)
    assert description.sandbox.notes == ("network=raw acts as open: passt is not installed",)
