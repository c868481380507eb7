"""Which network a task gets where, by the patterns of both sides."""

import pytest
from msgspec.structs import replace

from potluck.decide.derived_requirements import derive_requirements
from potluck.decide.pool.feasibility import Fit, Refusal, fit
from potluck.local.network.presets import load_presets
from potluck.model.error import InvalidInput
from potluck.model.network.patterns import (
    expand_entries,
    includes,
    read_pattern,
    shorten,
    uncovered,
)
from potluck.model.task import Requirements, TaskRequest
from potluck.model.task_spec import ContainerSpec, ScriptSpec
from tests.decide.builders import gpu, node, task

OWNER = "0x" + "a" * 40
PRESETS = {"hub": ("hub.org", "*.hub.org"), "tiny": ("t.org:8443",)}


@pytest.mark.parametrize(
    ("allowed", "host", "port", "is_included"),
    [
        ("a.org", "a.org", 443, True),
        ("a.org", "a.org", 80, True),
        ("a.org", "a.org", 22, False),
        ("a.org:22", "a.org", 22, True),
        ("a.org:22", "a.org", 443, False),
        ("*.a.org", "b.a.org", 443, True),
        ("*.a.org", "c.b.a.org", 443, True),
        ("*.a.org", "a.org", 443, False),
        ("*.a.org", "evila.org", 443, False),
        ("*.a.org", "a.org.evil.net", 443, False),
        ("*", "any.net", 443, True),
        ("*", "any.net", 25, False),
        ("*:25", "any.net", 25, True),
        ("198.41.0.4", "198.41.0.4", 443, True),
        ("[2606:4700::1111]:443", "2606:4700::1111", 443, True),
    ],
)
def test_a_pattern_includes(allowed: str, host: str, port: int, is_included: bool) -> None:
    assert includes((allowed,), host, port) is is_included


def test_requested_hosts_must_be_covered_on_every_port() -> None:
    assert uncovered(("a.org", "b.a.org"), ("a.org", "*.a.org")) == ()
    assert uncovered(("a.org", "b.org:22"), ("*",)) == ("b.org:22",)
    assert uncovered(("a.org",), ("a.org:443",)) == ("a.org",), "port 80 is wanted too"
    assert uncovered(("*.b.a.org",), ("*.a.org",)) == ()
    assert uncovered(("*",), ("*.a.org",)) == ("*",)
    assert uncovered((), ()) == ()


def test_presets_open_and_none_become_patterns() -> None:
    assert expand_entries(("HUB", "x.org"), PRESETS) == ("*.hub.org", "hub.org", "x.org")
    assert expand_entries(("open",), PRESETS) == ("*",)
    assert expand_entries(("none",), PRESETS) == ()
    repeated = expand_entries(("hub",), PRESETS)
    assert expand_entries(repeated, PRESETS) == repeated, (
        "a task that is retried was expanded before"
    )
    with pytest.raises(InvalidInput, match="no network preset 'hubb'") as error_info:
        expand_entries(("hubb",), PRESETS)
    assert error_info.value.hint == "Did you mean hub? There are: hub, open, raw, tiny."
    with pytest.raises(InvalidInput) as error_info:
        expand_entries(("openn",), {})
    assert "Did you mean open?" in error_info.value.hint


@pytest.mark.parametrize(
    "entry",
    [
        *("127.0.0.1", "10.0.0.1:80", "[::1]", "0x7f.1", "2130706433.", "printer.local", "a..org"),
        *("a.org:0", "a.org:65536", "a.org:x", "a.org:", "*.com*", "*.*.org", "a.org/x", "u@a.org"),
        *("*.localhost", "169.254.169.254", "a_b.org", "a.org.", "[fe80::1%eth0]:80"),
    ],
)
def test_a_pattern_that_is_not_public_or_not_one_is_refused(entry: str) -> None:
    with pytest.raises(InvalidInput):
        read_pattern(entry)


def test_every_shipped_preset_is_valid_and_shown_by_its_name() -> None:
    presets = load_presets()
    assert {"huggingface", "pypi", "github", "wandb", "s3"} <= presets.keys()
    for name in ("huggingface", "pypi"):
        assert shorten(expand_entries((name,), presets), presets) == (name,)
    assert shorten(("*",), presets) == ("open",)
    assert shorten(("x.org", *presets["pypi"]), presets) == ("pypi", "x.org")


def test_a_task_for_its_owner_and_one_of_a_stranger_see_different_terms() -> None:
    of_owner = task(network=("a.org",), own_wallet=OWNER)
    of_stranger = task(network=("a.org",), own_wallet="0x" + "b" * 40)
    for_owner = node(devices=(gpu(own_network=("*",)),), wallet=OWNER)
    assert isinstance(fit(of_owner, for_owner), Fit)
    assert fit(of_stranger, for_owner) is Refusal.NETWORK
    for_others = replace(for_owner, devices=(gpu(network=("a.org", "*.a.org")),))
    assert isinstance(fit(of_stranger, for_others), Fit)
    assert fit(of_owner, for_others) is Refusal.NETWORK, "own tasks have terms of their own"


def test_the_owners_wallet_cannot_be_forged_in_a_request() -> None:
    request = TaskRequest(
        ScriptSpec("a.py", "pass"), requirements=Requirements(network=("a.org",), own_wallet=OWNER)
    )
    other = "0x" + "B" * 40
    assert derive_requirements(request, other).own_wallet == other.lower()
    plain = replace(request, requirements=Requirements(own_wallet="*"))
    assert derive_requirements(plain, other).own_wallet is None


def test_raw_includes_all_and_is_included_by_raw_only() -> None:
    assert expand_entries(["hub", "raw", "a.org:22"], PRESETS) == ("raw",)
    assert uncovered(("a.org:22", "*"), ("raw",)) == ()
    assert uncovered(("raw",), ("*", "*:22")) == ("raw",)
    assert shorten(("raw",), PRESETS) == ("raw",)


def test_a_task_with_an_image_has_no_raw_network() -> None:
    needs = Requirements(network=("raw",))
    request = TaskRequest(ContainerSpec("python:3.12"), requirements=needs)
    with pytest.raises(InvalidInput, match="no raw network"):
        derive_requirements(request, OWNER)
