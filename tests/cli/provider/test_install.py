"""`potluck provider install`, with a service manager that writes down what it is asked.

There is no systemd to talk to on a machine for tests, so a program of its name stands in for it and
remembers, in files, whether the unit is enabled and runs.
"""

import os
import time
from pathlib import Path

import pytest

from potluck.model.ids import NodeId
from potluck.provider.data_directory import save_node_id
from potluck.provider.server.node_key import Authorised, ensure_key, save_delegation
from potluck.provider.service.systemd import NAME, command_in
from tests.cli.command_line import InProcess

URL, OTHER = "http://127.0.0.1:9471", "http://127.0.0.1:9472"
SYSTEMCTL = """#!/bin/sh
echo "$*" >> "$STATE/calls"
case "$2" in
  show-environment) test ! -e "$STATE/away" ;;
  is-enabled) test -e "$STATE/enabled" ;;
  is-active) test -e "$STATE/active" ;;
  enable) touch "$STATE/enabled" ;;
  disable) rm -f "$STATE/enabled" ;;
  restart)
    test ! -e "$STATE/broken" || { echo "Job failed." >&2; exit 1; }
    touch "$STATE/active" ;;
  stop) rm -f "$STATE/active" ;;
esac
"""


class Owner(InProcess):
    """Of a machine whose key the wallet has authorised at both servers."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "config")
        self.state, self.home = directory / "state", directory / "home"
        for made_directory in (self.state, self.home, directory / "bin"):
            made_directory.mkdir()
        systemctl = directory / "bin" / "systemctl"
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o700)
        self.variables.pop("XDG_CONFIG_HOME", None)
        self.variables |= {
            "HOME": str(self.home),
            "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
            "POTLUCK_DATA_DIR": str(directory / "data"),
            "STATE": str(self.state),
        }
        provider = directory / "data" / "provider"
        for url in (URL, OTHER):
            ends = int(time.time()) + 86_400
            key = ensure_key(provider)
            save_delegation(provider, Authorised(url, key, int(time.time()), ends))

    @property
    def unit(self) -> Path:
        return self.home / ".config" / "systemd" / "user" / NAME

    def calls(self) -> list[str]:
        """Since the last time."""
        path = self.state / "calls"
        calls = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [call.removeprefix("--user ") for call in calls]


@pytest.fixture
def owner(tmp_path: Path) -> Owner:
    return Owner(tmp_path)


def test_a_unit_is_written_and_enabled_and_with_now_started(owner: Owner) -> None:
    result = owner.run("provider", "install", URL, "--json", "--", "--name", "box")
    assert (result.status, result.stderr) == (0, "")
    (document,) = result.lines()
    assert (document["url"], document["is_enabled"], document["is_active"]) == (URL, True, False)
    command = command_in(owner.unit.read_text())
    assert command[1:5] == ["-m", "potluck", "provide", URL] and command[-2:] == ["--name", "box"]
    assert Path(command[0]).is_absolute()
    assert "restart" not in " ".join(owner.calls())
    now = owner.run("provider", "install", URL, "--now", "--json", "--", "--name", "box")
    assert now.lines()[0]["is_active"]
    assert f"restart {NAME}" in owner.calls()


def test_the_server_that_this_machine_provides_to_is_the_default(owner: Owner) -> None:
    save_node_id(Path(owner.variables["POTLUCK_DATA_DIR"]) / "provider", URL, NodeId("node_1"))
    result = owner.run("provider", "install", "--json", "--", "--name", "box")
    assert (result.status, result.stderr) == (0, "")
    assert result.lines()[0]["url"] == URL


def test_a_repetition_changes_nothing(owner: Owner) -> None:
    owner.run("provider", "install", URL, "--now")
    before = owner.unit.stat()
    owner.calls()
    result = owner.run("provider", "install", URL, "--now")
    assert result.status == 0
    assert owner.unit.stat().st_mtime_ns == before.st_mtime_ns
    assert f"restart {NAME}" not in owner.calls()


def test_another_server_is_not_provided_for_by_accident(owner: Owner) -> None:
    owner.run("provider", "install", URL)
    result = owner.run("provider", "install", OTHER, "--json")
    assert result.status == 78
    assert result.lines()[-1]["error"]["code"] == "bad_settings"
    assert URL in result.stderr and "--yes" in result.stderr
    assert owner.run("provider", "install", OTHER, "--yes").status == 0
    assert OTHER in owner.unit.read_text()


def test_the_file_alone_is_shown_and_nothing_is_done(owner: Owner) -> None:
    result = owner.run("provider", "install", URL, "--print")
    assert result.status == 0
    assert URL in " ".join(command_in(result.stdout.decode()))
    assert not owner.unit.exists()
    assert owner.calls() == []


def test_without_a_user_manager_the_rest_is_for_the_owner_to_do(owner: Owner) -> None:
    (owner.state / "away").touch()
    result = owner.run("provider", "install", URL)
    assert result.status == 69
    assert owner.unit.exists()
    assert f"systemctl --user enable --now {NAME}" in result.stderr


def test_refusals_of_the_service_manager_are_reported(owner: Owner) -> None:
    (owner.state / "broken").touch()
    result = owner.run("provider", "install", URL, "--now")
    assert result.status == 69
    assert "Job failed" in result.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--nam", "x"], "--name"),
        (["--invite", "secret"], "--invite is not an option of the service"),
        (["--authorise"], "--authorise is not an option of the service"),
    ],
)
def test_invalid_options_are_refused_before_anything_is_written(
    owner: Owner, options: list[str], sentence: str
) -> None:
    result = owner.run("provider", "install", URL, "--", *options)
    assert result.status == 64
    assert sentence in result.stderr
    assert not owner.unit.exists()


def test_uninstalling_lets_what_runs_run_unless_it_is_to_be_now(owner: Owner) -> None:
    owner.run("provider", "install", URL, "--now")
    result = owner.run("provider", "uninstall", "--json")
    assert (result.status, result.lines()[0]["runs"]) == (0, True)
    assert not owner.unit.exists()
    assert f"stop {NAME}" not in owner.calls()
    assert "No service is installed" in owner.run("provider", "uninstall").stderr
    owner.run("provider", "install", URL)
    assert owner.run("provider", "uninstall", "--now").status == 0
    assert f"stop {NAME}" in owner.calls()


def test_a_wallet_without_an_authorisation_is_asked_for_one(owner: Owner) -> None:
    """Nobody is there to ask for a password, and nobody answers at that address."""
    result = owner.run("provider", "install", "http://127.0.0.1:9")
    assert result.status == 69
    assert not owner.unit.exists(), "a service that could not sign in is of no use"
