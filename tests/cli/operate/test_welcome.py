"""What `up` tells people: every address and command, and no secret."""

import sys
from pathlib import Path
from typing import Any

import pytest

from potluck.cli.operate.platform import describe_offer
from potluck.cli.operate.welcome import command_name, show_welcome, warn_about_variables
from potluck.cli.terminal.screen import Pane

URL = "http://127.0.0.1:8470"
# In one piece, however long: it is there to be copied.
JOIN = f'pip install "potluck @ {URL}/v1/package/potluck.whl#sha256={"0" * 64}"'


def test_the_welcome_says_what_to_type_next(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [".venv/bin/potluck"])
    show_welcome(Pane(sys.stdout), URL, has_provider=True, join_line=JOIN)
    output = capsys.readouterr().out
    for sentence in (
        f"{URL}/docs",
        "run examples/hello.py",
        f"provide {URL} --data-dir DIR",
        "ssh -N -L 8470:127.0.0.1:8470 YOU@THIS-MACHINE",
        f"    {JOIN}\n",
        f"potluck run --server {URL} --template hello",
    ):
        assert sentence in output
    assert all(len(line) <= 80 or JOIN in line for line in output.splitlines())


@pytest.mark.parametrize(
    ("on_path", "started_as", "expected"),
    [
        (True, "/opt/potluck/.venv/bin/potluck", "potluck"),
        (False, ".venv/bin/potluck", ".venv/bin/potluck"),
        (False, "/opt/potluck/.venv/bin/potluck", "/opt/potluck/.venv/bin/potluck"),
        (False, "/x/potluck/__main__.py", f"{sys.executable} -m potluck"),
    ],
)
def test_shown_commands_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_path: bool, started_as: str, expected: str
) -> None:
    if on_path:
        (tmp_path / "potluck").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [started_as])
    assert command_name() == expected


def test_a_variable_that_names_another_server_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POTLUCK_TOKEN", raising=False)
    monkeypatch.setenv("POTLUCK_URL", f"{URL}/")
    warn_about_variables(Pane(sys.stdout), URL)
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("POTLUCK_URL", "https://elsewhere.example")
    warn_about_variables(Pane(sys.stdout), URL)
    assert "POTLUCK_URL is set to https://elsewhere.example" in capsys.readouterr().out
    monkeypatch.setenv("POTLUCK_URL", URL)
    monkeypatch.setenv("POTLUCK_TOKEN", "potluck_key_x")
    warn_about_variables(Pane(sys.stdout), URL)
    output = capsys.readouterr().out
    assert "unset POTLUCK_TOKEN" in output and "potluck_key_x" not in output


@pytest.mark.parametrize(
    ("sandbox", "sentence"),
    [
        ({"driver": "none"}, "no sandbox: takes only your own tasks"),
        ({"driver": "runsc", "cpu": "cgroup v2"},
         "sandbox: runsc, which does not limit memory and processes: takes only your own tasks"),
        ({"driver": "bwrap", "memory": "cgroup v1", "processes": "cgroup v1", "cpu": "cgroup v1"},
         "sandbox: bwrap, limits by cgroup v1"),
        ({"driver": "bwrap", "memory": "rlimits and watchdog", "processes": "watchdog",
          "cpu": "none"}, "sandbox: bwrap, limits by rlimits and watchdog"),
    ],
)  # fmt: skip
def test_the_offer_of_a_provider(sandbox: dict[str, Any], sentence: str) -> None:
    devices = [{"kind": "cpu", "model": "Ryzen"}]
    offered = describe_offer({"devices": devices, "sandbox": sandbox})
    assert offered == ["offers CPU Ryzen", sentence]
