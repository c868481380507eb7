"""Every check says what it found, what it needs and what to do; copied, the fixes help."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from potluck import __version__
from potluck.cli.doctor.data_directory import check_provider
from potluck.cli.doctor.devices import check_driverless_cards, check_route
from potluck.cli.doctor.finding import CheckedMachine, CheckResult, Finding
from potluck.cli.doctor.sandbox import (
    check_containers,
    check_kernel,
    check_limits,
    check_sandbox,
    check_strangers,
)
from potluck.cli.doctor.server import check_clock
from potluck.cli.doctor.terms import check_terms, find_doubts
from potluck.cli.doctor.with_timeout import call_with_timeout
from potluck.model.account import Credential, Role
from potluck.model.error import AccountSuspended, NotSignedIn, Unavailable
from potluck.model.ids import AccountId
from potluck.model.node import SandboxReport
from potluck.model.terms import TaskKind, TermsChange
from potluck.provider.data_directory import save_node_id
from potluck.provider.detect.report import RouteOutcome, RouteTrial
from potluck.provider.owner.file import OwnerValues
from potluck.provider.server.node_key import Authorised, ensure_key, save_delegation
from potluck.wire.consumer import ServerHealth, ServerReadiness
from potluck.wire.identity import Me
from tests.cli.command_line import CommandLine
from tests.cli.fake_provider import BIG, NODE, FakeProvider, a_status
from tests.consumer.fake_server import FakeServer, Scene, refuses, says
from tests.processes import free_port

ME = Me(
    id=AccountId("account_1"),
    address="0x2c7536E3605D9C16a7a3D7b1898e529396a65c23",
    roles=[Role.CONSUMER],
    signed_in_by=Credential.KEY,
    scopes=[],
    available_micro=2_500_000,
    held_micro=0,
)
WALLET = "0x3FCf4914fC89B984Ca671C48D27b2814B59E3CA0"


@pytest.fixture
def healthy(server: FakeServer, user: CommandLine, tmp_path: Path) -> FakeServer:
    """A server that is well, and a data directory of the test's own."""
    user.variables["POTLUCK_DATA_DIR"] = str(tmp_path / "data")
    server.plays("/healthz", says(ServerHealth("ok", __version__)))
    server.plays("/readyz", says(ServerReadiness("ok", __version__)))
    server.plays("/v1/me", says(ME))
    return server


def findings(user: CommandLine, *arguments: str, status: int = 0) -> dict[str, Any]:
    result = user.run("doctor", *arguments, "--json")
    assert result.status == status, result.stdout
    (document,) = result.lines()
    assert document["is_well"] is (status == 0)
    assert all(finding["fix"] for finding in document["findings"] if finding["verdict"] == "fail")
    return {finding["name"]: finding for finding in document["findings"]}


def verdicts(findings_by_name: dict[str, Any]) -> dict[str, str]:
    return {name: finding["verdict"] for name, finding in findings_by_name.items()}


def test_a_consumer_who_is_well(user: CommandLine, healthy: FakeServer) -> None:
    named_findings = findings(user, "consumer")
    assert named_findings["account"]["found"] == f"{ME.address} (consumer), 2.5 credits"
    assert {*verdicts(named_findings).values()} <= {"ok", "warn", "skipped"}
    for name in ("python", "server name", "connection", "server", "version", "readiness", "clock"):
        assert named_findings[name]["verdict"] == "ok" and named_findings[name]["needed"]
    assert "sandbox" not in named_findings and "route: opencl" not in named_findings
    output = user.run("doctor", "consumer").stdout.decode()
    assert "The server\n  ok       server name" in output
    assert " failed" not in output.splitlines()[-1]


def test_the_first_step_that_fails_is_the_one_to_mend(
    user: CommandLine, healthy: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    named_findings = findings(user, "consumer", "--server", url, status=1)
    assert named_findings["connection"]["found"].endswith("Connection refused")
    assert named_findings["server"]["verdict"] == named_findings["clock"]["verdict"] == "skipped"

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    named_findings = findings(user, "consumer", status=1)
    assert named_findings["server name"]["verdict"] == "fail"
    assert named_findings["connection"] == {
        **named_findings["connection"],
        "found": "needs: server name",
    }


@pytest.mark.parametrize(
    ("path", "scene", "name", "verdict", "sentence"),
    [
        ("/healthz", says(ServerHealth("ok", "9.9")), "version", "warn", "9.9 on the server"),
        ("/healthz", Scene(200, b"<html>"), "version", "fail", "not a Potluck server"),
        ("/healthz", Scene(0, cut=True), "server", "fail", "no answer"),
        (
            *("/readyz", says(ServerReadiness("no", "1", {"database": "It starts."}), 503)),
            *("readiness", "fail", "(database: It starts.)"),
        ),
        (
            *("/readyz", says(ServerReadiness("degraded", "1", {"live": "away", "disk": "ok"}))),
            *("readiness", "warn", "degraded (live: away)"),
        ),
        ("/readyz", Scene(502, b"<html>"), "readiness", "fail", "status 502"),
        ("/v1/me", refuses(NotSignedIn("Unknown token.")), "account", "fail", "Unknown token."),
        ("/v1/me", refuses(AccountSuspended("Suspended.")), "account", "fail", "Suspended."),
        ("/v1/me", refuses(Unavailable("It starts.")), "account", "skipped", "It starts."),
    ],
)
def test_an_unhealthy_server_is_a_finding(
    user: CommandLine,
    healthy: FakeServer,
    path: str,
    scene: Scene,
    name: str,
    verdict: str,
    sentence: str,
) -> None:
    healthy.plays(path, scene)
    named_findings = findings(user, "consumer", status=1 if verdict == "fail" else 0)
    assert named_findings[name]["verdict"] == verdict
    assert sentence in named_findings[name]["found"]


def test_a_clock_that_is_wrong() -> None:
    now = datetime.now(UTC)
    assert check_clock(format_datetime(now)).verdict is CheckResult.OK
    clock_finding = check_clock(format_datetime(now + timedelta(minutes=2)))
    assert clock_finding.verdict is CheckResult.FAIL and "behind" in clock_finding.found
    assert "ahead" in check_clock(format_datetime(now - timedelta(minutes=2))).found
    assert check_clock(None).verdict is check_clock("soon").verdict is CheckResult.SKIPPED


def test_other_checks_run_despite_a_damaged_profile(user: CommandLine, healthy: FakeServer) -> None:
    profile = Path(user.variables["POTLUCK_CONFIG_DIR"]) / "profile.toml"
    profile.parent.mkdir()
    profile.write_text("garbage [")
    profile.chmod(0o600)
    named_findings = findings(user, "consumer", status=1)
    assert "damaged" in named_findings["profile"]["found"]
    assert named_findings["python"]["verdict"] == named_findings["server"]["verdict"] == "ok"


def test_the_provider_is_checked_with_its_own_server(
    user: CommandLine, healthy: FakeServer, tmp_path: Path
) -> None:
    """Whatever server the profile names."""
    directory = tmp_path / "data" / "provider"
    directory.mkdir(parents=True)
    word = Authorised(healthy.url, ensure_key(directory), 0, int(time.time() + 90 * 86_400))
    save_delegation(directory, word)
    user.variables["POTLUCK_URL"] = "http://127.0.0.1:1"
    with FakeProvider(a_status(url=healthy.url)).running(directory):
        named_findings = findings(user, "provider")
    assert named_findings["server"]["found"] == f"alive at {healthy.url}"
    assert named_findings["node key"]["verdict"] == "ok"
    save_node_id(directory, "http://127.0.0.1:3", NODE)
    both = user.run("doctor", "--json").lines()[0]["findings"]
    names = [finding["found"] for finding in both if finding["name"] == "connection"]
    assert [name.split(":")[0] for name in names] == ["127.0.0.1 port 1", "127.0.0.1 port 3"]


def test_a_directory_of_ones_own_is_named_in_the_fixes(tmp_path: Path) -> None:
    findings_by_name = {finding.name: finding for finding in check_provider(patient(tmp_path))}
    assert findings_by_name["provider"].fix.endswith(f" --data-dir {tmp_path}")
    file = tmp_path / "file"
    file.touch()
    (writable, *_) = check_provider(patient(file))
    assert writable.found == f"{file} is a file" and "--data-dir" in writable.fix


@contextmanager
def as_a_stranger(directory: Path) -> Iterator[None]:
    """Somebody who may not look into the directory; root becomes one for a while."""
    directory.chmod(0)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65_534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(0o700)


@pytest.mark.skipif(sys.platform == "win32", reason="has no modes")
def test_a_directory_of_another_user_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/")
    other = tmp_path / "other"
    ensure_key(other / "provider")
    list(check_provider(patient(other / "provider")))  # all that it needs is imported
    with as_a_stranger(other):
        findings_by_name = {
            finding.name: finding for finding in check_provider(patient(other / "provider"))
        }
        terms = list(check_terms(patient(other / "provider")))
    for name in ("data directory", "node key", "provider"):
        assert findings_by_name[name].verdict is CheckResult.FAIL and findings_by_name[name].fix
    assert "no permission to read" in findings_by_name["provider"].found
    assert terms[0].verdict is CheckResult.FAIL


def test_secrets_that_others_can_read_are_a_finding_with_a_fix(
    user: CommandLine, healthy: FakeServer
) -> None:
    wallet = Path(user.variables["POTLUCK_CONFIG_DIR"]) / "wallet.json"
    wallet.parent.mkdir()
    wallet.write_text("{}")
    wallet.chmod(0o644)
    finding = findings(user, "consumer", status=1)["wallet.json"]
    assert "0644" in finding["found"]
    subprocess.run(["sh", "-c", finding["fix"]], check=True)
    assert findings(user, "consumer")["wallet.json"]["verdict"] == "ok"


def test_a_machine_that_does_not_provide_gets_only_warnings(
    user: CommandLine, healthy: FakeServer, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:
        port = index.getsockname()[1]
        user.variables["POTLUCK_PROVIDER_INDEX_URL"] = f"http://127.0.0.1:{port}/simple"
        named_findings = findings(user)
    assert named_findings["node key"]["verdict"] == named_findings["provider"]["verdict"] == "warn"
    assert named_findings["package index"]["found"] == f"127.0.0.1 port {port} is open"
    assert named_findings["sandbox"]["verdict"] in ("ok", "warn")
    assert named_findings["device"]["found"]
    assert {"route: nvidia", "route: opencl"} <= {*named_findings}
    assert not (tmp_path / "data").exists(), "looking makes nothing"


def patient(directory: Path, url: str = "http://127.0.0.1:1") -> CheckedMachine:
    return CheckedMachine(url, None, directory, True)


def test_a_node_key_until_its_end(tmp_path: Path) -> None:
    def verdict(ends_in: float) -> CheckResult:
        word = Authorised("http://127.0.0.1:1", key, 0, int(time.time() + ends_in))
        save_delegation(tmp_path, word)
        (finding,) = (
            candidate
            for candidate in check_provider(patient(tmp_path))
            if candidate.name == "node key"
        )
        return finding.verdict

    key = ensure_key(tmp_path)
    assert verdict(90 * 86_400) is CheckResult.OK
    assert verdict(86_400) is CheckResult.WARN
    assert verdict(-1) is CheckResult.FAIL


def test_a_provider_that_runs_is_asked(tmp_path: Path) -> None:
    def looked() -> Any:
        return next(
            finding for finding in check_provider(patient(tmp_path)) if finding.name == "provider"
        )

    with FakeProvider(a_status()).running(tmp_path) as provider:
        assert looked().found == "attic with 2 devices, up 3 h 3 min"
        provider.status = a_status(problem="The server refuses it.")
        assert looked().verdict is CheckResult.FAIL


@pytest.mark.parametrize(
    ("owner_values", "sentence"),
    [
        (OwnerValues(TermsChange(is_paused=True)), "paused"),
        (OwnerValues(devices={"GPU-gone": TermsChange(fractions=2)}), "no such device"),
        (OwnerValues(TermsChange(allow=(WALLET,), deny=(WALLET.lower(),))), "deny every wallet"),
        (OwnerValues(TermsChange(is_reclaimable=True, grace_seconds=0)), "without a grace period"),
        (OwnerValues(devices={BIG: TermsChange(memory_share=0.02)}), "2% of the device's memory"),
        (OwnerValues(TermsChange(sandbox="none")), "only your own tasks"),
    ],
)
def test_invalid_terms_are_refused(owner_values: OwnerValues, sentence: str) -> None:
    ((doubt, fix),) = find_doubts(owner_values, [BIG])
    assert sentence in doubt and fix
    assert not list(find_doubts(OwnerValues(TermsChange(price_micro_per_hour=5)), [BIG]))


def test_a_limit_that_a_device_refuses_is_a_warning(tmp_path: Path) -> None:
    (device, *_) = a_status().devices
    refused_device = replace(device, refusal="It takes 100 to 350 W.")
    with FakeProvider(a_status(devices=(refused_device,))).running(tmp_path):
        term_findings = [
            finding for finding in check_terms(patient(tmp_path)) if finding.name == "terms"
        ]
    assert [finding.found for finding in term_findings] == ["It takes 100 to 350 W."]


def test_pythons_that_cannot_be_fetched_are_a_finding(tmp_path: Path) -> None:
    problem = "Pythons cannot be fetched: a:1 did not answer."
    with FakeProvider(a_status(pythons_problem=problem)).running(tmp_path):
        findings = {finding.name: finding for finding in check_terms(patient(tmp_path))}
    assert findings["fetch_python"].found == problem
    assert "fetch_python" not in {finding.name for finding in check_terms(patient(tmp_path))}


def test_a_broken_file_is_a_finding(user: CommandLine, healthy: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "provider.toml").write_text("prize = 3")
    (finding,) = check_terms(patient(tmp_path))
    assert finding.verdict is CheckResult.FAIL and "prize" in finding.found


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (RouteOutcome.FOUND, CheckResult.OK),
        (RouteOutcome.NOTHING, CheckResult.SKIPPED),
        (RouteOutcome.MISSING, CheckResult.SKIPPED),
        (RouteOutcome.FAILED, CheckResult.FAIL),
        (RouteOutcome.TIMED_OUT, CheckResult.FAIL),
    ],
)
def test_messages_of_a_detection_route_are_shown(
    outcome: RouteOutcome, verdict: CheckResult
) -> None:
    hint = "" if outcome is RouteOutcome.FOUND else "Install it anew."
    finding = check_route(RouteTrial("nvidia", outcome, "It says so.", hint, 0.25, 1))
    assert finding.verdict is verdict
    assert finding.found.startswith("It says so.") and finding.fix == hint


def test_a_card_without_a_driver_is_seen_on_the_bus(tmp_path: Path) -> None:
    card = tmp_path / "0000:01:00.0"
    card.mkdir()
    (card / "class").write_text("0x030200\n")
    (card / "vendor").write_text("0x10de\n")
    (finding,) = check_driverless_cards([RouteTrial("nvidia", RouteOutcome.MISSING)], tmp_path)
    assert "0000:01:00.0" in finding.found and finding.verdict is CheckResult.FAIL
    assert not list(
        check_driverless_cards([RouteTrial("nvidia", RouteOutcome.FOUND, devices=1)], tmp_path)
    )
    (card / "class").write_text("0x020000\n")
    assert not list(check_driverless_cards([], tmp_path)), "a network card is none"


def test_the_sandbox_that_is_in_force_is_looked_at(tmp_path: Path) -> None:
    def driver() -> Finding:
        first, *others = check_sandbox(patient(tmp_path))
        if first.verdict is CheckResult.WARN:
            assert {finding.verdict for finding in others} == {CheckResult.SKIPPED}
        return first

    with FakeProvider(a_status(sandbox=SandboxReport("none"))).running(tmp_path):
        finding = driver()
    assert "without isolation" in finding.found and finding.fix
    assert "walls" not in driver().found
    (tmp_path / "provider.toml").write_text('sandbox = "none"\n')
    assert driver() == finding, "with the next start"
    with FakeProvider(a_status()).running(tmp_path):
        assert "walls" not in driver().found, "what runs has not changed it yet"


def test_a_sandbox_without_limits_is_for_its_owner_only() -> None:
    unlimited = SandboxReport(
        "runsc", "none", "cgroup v2", kinds=tuple(TaskKind), notes=("gVisor",)
    )
    finding = check_strangers("sandbox", "runsc, tried out", unlimited, "isolates")
    assert finding.verdict is CheckResult.WARN and "--ignore-cgroups" in finding.fix
    assert "only your own tasks are accepted, because it does not limit memory" in finding.found
    assert check_containers(unlimited, None).verdict is CheckResult.WARN
    limited = replace(unlimited, memory="cgroup v2")
    assert check_containers(limited, None).verdict is CheckResult.OK


def test_walls_that_only_watch_are_named() -> None:
    report = SandboxReport(
        "bwrap", "watchdog", "cgroup v2", "none", "tmpfs", "namespaces", "seccomp", "own uid"
    )
    limit_findings = {finding.name: finding for finding in check_limits(report)}
    assert limit_findings["wall: memory"].verdict is CheckResult.WARN
    assert "Delegate=yes" in limit_findings["wall: memory"].fix
    assert limit_findings["wall: processes"].verdict is CheckResult.OK
    assert limit_findings["wall: cpu"].found == "nothing"


@pytest.mark.parametrize(
    ("is_working", "maximum", "restricted", "verdicts"),
    [
        (True, "1000", "0", [CheckResult.OK]),
        (True, "1000", "1", [CheckResult.OK, CheckResult.OK]),  # a profile lets bwrap through
        (False, "1000", "1", [CheckResult.OK, CheckResult.FAIL]),
        (False, "0", "0", [CheckResult.WARN]),
        (True, None, None, [CheckResult.SKIPPED]),
    ],
)
def test_the_settings_of_the_kernel(
    tmp_path: Path,
    is_working: bool,
    maximum: str | None,
    restricted: str | None,
    verdicts: list[CheckResult],
) -> None:
    for name, text in (("maximum", maximum), ("restricted", restricted)):
        if text is not None:
            (tmp_path / name).write_text(f"{text}\n")
    kernel_findings = list(check_kernel(is_working, tmp_path / "maximum", tmp_path / "restricted"))
    assert [finding.verdict for finding in kernel_findings] == verdicts
    assert all(
        "sysctl" in finding.fix
        for finding in kernel_findings
        if finding.verdict is CheckResult.FAIL
    )


def test_a_check_that_hangs_times_out() -> None:
    with pytest.raises(TimeoutError):
        call_with_timeout(0.05, lambda: time.sleep(1))
    with pytest.raises(ZeroDivisionError):
        call_with_timeout(5, lambda: 1 / 0)
    assert call_with_timeout(5, lambda: 3) == 3
