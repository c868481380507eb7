"""Defaults of a project: what is typed wins, and a dry run says who said what."""

from pathlib import Path

import msgspec
import pytest

from potluck.model.task import TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.wire.estimate import Estimate, Outlook
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, a_task, says

SCRIPT = """\
# /// script
# dependencies = []
# [tool.potluck]
# gpu = 2
# env = { MODE = "script" }
# ///
print(1)
"""
PROJECT = """\
[tool.potluck]
gpu = 1
vram = "24GB"
model = "RTX 40*"
max-price = 0.5
label = ["region=eu"]
env = { MODE = "project", SEED = "1" }
file = ["data.csv"]
priority = 3
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    (path / "job.py").write_text(SCRIPT)
    (path / "pyproject.toml").write_text(PROJECT)
    (path / "data.csv").write_text("1")
    return path


def asked(user: CommandLine, server: FakeServer, *arguments: str) -> TaskRequest:
    """What a dry run asks about."""
    server.plays("/v1/tasks/estimate", says(Estimate(Outlook.NOW, "It would start now.")))
    result = user.run(*arguments)
    assert result.status == 0, result.stderr
    return msgspec.json.decode(server.requests[-1].body, type=TaskRequest)


@pytest.mark.parametrize("verb", ["run", "submit"])
def test_defaults_come_from_the_script_and_the_project(
    user: CommandLine, server: FakeServer, directory: Path, verb: str
) -> None:
    request = asked(user, server, verb, "--dry-run", "job.py")
    needs = request.requirements
    assert (needs.device_count, needs.device_memory_bytes) == (2, 24 * 10**9)
    assert (needs.device_model, needs.max_price_micro_per_hour) == ("RTX 40*", 500_000)
    assert (needs.labels, request.priority) == (("region=eu",), 3)
    assert request.spec.environment == {"MODE": "script", "SEED": "1"}
    assert [file.path for file in request.spec.files] == ["data.csv"]
    assert isinstance(request.spec, ScriptSpec) and request.spec.arguments == ()


def test_typed_options_win(user: CommandLine, server: FakeServer, directory: Path) -> None:
    typed_options = "--gpu 4 --max-price 9 --label other --env MODE=typed --priority 0"
    request = asked(
        user, server, "run", "--dry-run", *typed_options.split(), "job.py", "--gpu", "8"
    )
    needs = request.requirements
    assert (needs.device_count, needs.max_price_micro_per_hour) == (4, 9_000_000)
    assert (needs.labels, request.priority) == (("other",), 0)
    assert request.spec.environment == {"MODE": "typed", "SEED": "1"}
    assert needs.device_memory_bytes == 24 * 10**9


def test_a_map_has_them_too(user: CommandLine, server: FakeServer, directory: Path) -> None:
    (directory / "items.txt").write_text("a\nb\n")
    request = asked(user, server, "map", "--dry-run", "items.txt", "job.py")
    assert (request.items, request.requirements.device_count) == (2, 2)


def test_a_command_has_those_of_the_directory(
    user: CommandLine, server: FakeServer, directory: Path
) -> None:
    request = asked(user, server, "run", "--dry-run", "--command", "nvidia-smi")
    assert request.requirements.device_count == 1


def test_a_dry_run_says_where_each_value_comes_from(
    user: CommandLine, server: FakeServer, directory: Path
) -> None:
    server.plays("/v1/tasks/estimate", says(Estimate(Outlook.NOW, "It would start now.")))
    output = user.run("run", "--dry-run", "--vram", "8GB", "job.py").stdout.decode()
    option_lines = output.partition("Options from elsewhere:\n")[2].splitlines()
    assert option_lines[:3] == [
        "  gpu = 2 (job.py, line 4)",
        "  env = MODE=project, SEED=1, MODE=script (pyproject.toml, line 7, and job.py, line 5)",
        "  model = RTX 40* (pyproject.toml, line 4)",
    ]
    assert not any(line.startswith("  vram") for line in option_lines)
    (document,) = user.run("run", "--dry-run", "--json", "job.py").lines()
    assert document["defaults"][0] == {"key": "gpu", "value": 2, "where": "job.py, line 4"}


def test_a_mistake_is_reported_before_anything_is_sent(
    user: CommandLine, server: FakeServer, directory: Path
) -> None:
    (directory / "pyproject.toml").write_text("[tool.potluck]\nmodle = 'x'\n")
    result = user.run("run", "job.py")
    assert result.status == 64 and not server.requests
    assert "pyproject.toml, line 2: there is no option 'modle'" in result.stderr
    assert "Did you mean model?" in result.stderr
    assert user.run("run", "--help").status == 0, "help is there in spite of it"


def test_a_key_of_the_environment_does_not_follow_a_project(
    user: CommandLine, server: FakeServer, directory: Path
) -> None:
    (directory / "pyproject.toml").write_text('[tool.potluck]\nserver = "http://127.0.0.1:9"\n')
    server.plays("/v1/tasks", says(a_task(), 201))
    assert user.run("submit", "job.py").status == 0, "POTLUCK_URL says which server"
    del user.variables["POTLUCK_URL"]
    result = user.run("submit", "job.py")
    assert result.status == 64 and "POTLUCK_TOKEN would be sent there" in result.stderr
    assert user.run("submit", "--server", server.url, "job.py").status == 0
