"""Packages that a script gets by options, or by the folder that is sent with it."""

from pathlib import Path

import msgspec
import pytest

from potluck.model.script import ScriptMetadata, read_metadata
from potluck.model.task import TaskRequest
from potluck.model.task_spec import ScriptSpec
from potluck.wire.estimate import Estimate, Outlook
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, says


@pytest.fixture
def project(tmp_path: Path, server: FakeServer) -> Path:
    server.plays("/v1/tasks/estimate", says(Estimate(Outlook.NOW, "It would start now.")))
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / "requirements.txt").write_text("pandas==3.1.1\n")
    return tmp_path


def needs(server: FakeServer) -> ScriptMetadata:
    request = msgspec.json.decode(server.requests[-1].body, type=TaskRequest)
    assert isinstance(request.spec, ScriptSpec)
    return read_metadata(request.spec.source)


def test_packages_are_named_on_the_command_line(
    user: CommandLine, server: FakeServer, project: Path
) -> None:
    requirements_file = project / "requirements.txt"
    for option in ("--with", "--dependencies"):
        arguments = [option, "numpy>=2", option, "scipy", "--requirements", requirements_file]
        result = user.run("run", "--dry-run", *arguments, project / "train.py")
        assert result.status == 0, result.stderr
        assert needs(server).dependencies == ("numpy>=2", "pandas==3.1.1", "scipy")


def test_a_folder_brings_its_own(user: CommandLine, server: FakeServer, project: Path) -> None:
    run = ("run", "--dry-run", "--folder", project)
    result = user.run(*run, project / "train.py")
    assert needs(server).dependencies == ("pandas==3.1.1",)
    assert "requirements.txt are installed" in " ".join(result.stderr.split())
    other = project / "other.txt"
    other.write_text("numpy\n")
    user.run(*run, "--requirements", other, project / "train.py")
    assert needs(server).dependencies == ("numpy",)


def test_the_block_of_a_script_takes_precedence_over_its_project(
    user: CommandLine, server: FakeServer, project: Path
) -> None:
    script = project / "train.py"
    script.write_text('# /// script\n# dependencies = ["numpy"]\n# ///\nprint(1)\n')
    user.run("run", "--dry-run", "--folder", project, script)
    assert needs(server).dependencies == ("numpy",)


@pytest.mark.parametrize("arguments", [["--command", "true"], ["--image", "busybox"]])
def test_programs_and_images_get_no_packages(user: CommandLine, arguments: list[str]) -> None:
    result = user.run("run", "--dry-run", "--with", "numpy", *arguments)
    assert result.status == 64, result.status
    assert "for scripts and functions only" in " ".join(result.stderr.split())


@pytest.mark.parametrize("package", ["numpy @ https://x.example/n.whl", "--index-url", "./local"])
def test_only_plain_requirements_are_taken(user: CommandLine, project: Path, package: str) -> None:
    result = user.run("run", "--dry-run", f"--with={package}", project / "train.py")
    assert result.status != 0
    assert "is not a plain requirement" in " ".join(result.stderr.split())
