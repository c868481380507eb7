"""The provider as a service: what systemd and launchd are told, read back as they read it."""

import plistlib
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from potluck.model.error import BadSettings, NotInstalled
from potluck.provider.service import launchd, systemd
from potluck.provider.service.choose import find_manager
from potluck.provider.service.service import Service, describe, url_of
from potluck.provider.settings import ProviderSettings

URL = "https://pool.example:8470"
COMMAND = ("/opt/a b/python", "-m", "potluck", "provide", URL, "--name", 'my "5 %" $BOX \\ x')


def a_service(**variables: str) -> Service:
    return describe(COMMAND, variables, Path("/config/potluck"), Path("/data"), 5.0)


def read(unit: str) -> ConfigParser:
    parser = ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(unit)
    return parser


def test_a_unit_says_what_to_run_however_it_is_spelled() -> None:
    text = systemd.unit(a_service())
    assert systemd.command_in(text) == list(COMMAND)
    assert r'"my \"5 %%\" $$BOX \\ x"' in text, "nothing is expanded on the way"
    assert url_of(systemd.command_in(text)) == URL


def test_a_unit_comes_back_after_failures_and_not_after_final_ones() -> None:
    service = read(systemd.unit(a_service()))["Service"]
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == ["64", "77", "78"]
    assert read(systemd.unit(a_service()))["Unit"]["StartLimitIntervalSec"] == "0"


def test_a_unit_gives_the_provider_time_to_end_its_tasks_and_kills_the_rest() -> None:
    service = read(systemd.unit(a_service()))["Service"]
    assert service["KillMode"] == "mixed"
    grace = ProviderSettings(url=URL, data_directory=Path("/data"), name="n").stop_grace_seconds
    assert float(service["TimeoutStopSec"]) > grace + 30


def test_a_unit_lets_tasks_have_groups_and_namespaces() -> None:
    service = read(systemd.unit(a_service()))["Service"]
    assert (service["Delegate"], service["OOMPolicy"]) == ("yes", "continue")
    walls = ("Protect", "Private", "Restrict", "SystemCall", "NoNewPrivileges", "Capability")
    kept_settings = [name for name in service if name.startswith(walls)]
    assert kept_settings == ["RestartPreventExitStatus"] or not kept_settings, (
        "user namespaces must work inside"
    )


def test_a_service_has_the_settings_and_no_secrets() -> None:
    service = a_service(
        POTLUCK_PROVIDER_CORES="4", POTLUCK_WALLET_KEY="ab", POTLUCK_TOKEN="t", HOME="/somewhere"
    )
    variables = {"POTLUCK_PROVIDER_CORES": "4", "POTLUCK_CONFIG_DIR": "/config/potluck"}
    assert dict(service.variables) == variables
    agent = plistlib.loads(launchd.Launchd(Path("/somewhere")).content(service))
    assert {**agent["EnvironmentVariables"], **variables} == agent["EnvironmentVariables"]
    assert "ab" not in agent["EnvironmentVariables"].values()


def test_an_agent_of_launchd_says_the_same() -> None:
    content = launchd.Launchd(Path("/somewhere")).content(a_service())
    agent = plistlib.loads(content)
    assert launchd.command_in(content) == list(COMMAND)
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["ExitTimeOut"] > 30


def test_machines_that_fail_together_do_not_come_back_as_one() -> None:
    places = [Path(f"/data/{number}") for number in range(40)]
    waits = {describe(COMMAND, {}, Path("/c"), place, 5.0).restart_seconds for place in places}
    assert len(waits) > 5 and min(waits) >= 10 and max(waits) < 30


def test_line_breaks_in_a_unit_are_refused() -> None:
    with pytest.raises(BadSettings):
        systemd.unit(describe((*COMMAND, "a\nExecStop=x"), {}, Path("/c"), Path("/d"), 5.0))


def test_systems_without_a_manager_that_we_know_are_told_what_to_do() -> None:
    with pytest.raises(NotInstalled) as error_info:
        find_manager("win32")
    assert "Task Scheduler" in error_info.value.hint


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_itself_takes_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "a 5 % program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    path = tmp_path / systemd.NAME
    command = (str(program), *COMMAND[1:])
    path.write_text(
        systemd.unit(describe(command, {"POTLUCK_PROVIDER_NAME": "5 %"}, *2 * (tmp_path,), 5))
    )
    (tmp_path / "systemd").mkdir()
    process = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(path)],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (0, "")
